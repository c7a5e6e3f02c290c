# One fit of an R package: Rscript fit.R FOLDER PACKAGE OPTIMIZER LOSS THREADS LINEAR.
#
# Reads the rows that rivals.py wrote to FOLDER and writes the scores of the test rows and the
# figures. Knows compboost and mboost: 200 iterations at rate 0.05, df 5, 20 knots.

arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
package <- arguments[2]
optimizer <- arguments[3]
loss <- arguments[4]
threads <- as.integer(arguments[5])
linear <- arguments[6] == "1"
rate <- 0.05
iterations <- 200
momentum <- 0.0034

kinds <- readLines(file.path(folder, "kinds.txt"), warn = FALSE)
columns <- paste0("x", seq_along(kinds))

read_rows <- function(part) {
  path <- file.path(folder, paste0(part, ".bin"))
  values <- readBin(path, "double", file.size(path) / 8)
  table <- matrix(values, ncol = length(kinds) + 2)
  frame <- as.data.frame(table[, seq_along(kinds), drop = FALSE])
  colnames(frame) <- columns
  for (j in which(kinds == "level")) frame[[j]] <- paste0("level", frame[[j]])
  list(frame = frame, y = table[, ncol(table) - 1], exposure = table[, ncol(table)])
}

# Megabytes of this process, by Linux's account of it; NaN elsewhere.
memory <- function(field) {
  tryCatch({
    lines <- readLines("/proc/self/status")
    line <- grep(paste0("^", field, ":"), lines, value = TRUE)
    as.numeric(gsub("[^0-9]", "", line)) * 1024 / 1e6
  }, error = function(e) NaN, warning = function(w) NaN)
}

forget_peak <- function() {
  try(suppressWarnings(cat("5", file = "/proc/self/clear_refs")), silent = TRUE)
}

fit_compboost <- function(rows) {
  if (loss == "poisson") stop("compboost has no poisson loss")
  data <- rows$frame
  binary <- loss == "binomial"
  data$y <- if (binary) factor(ifelse(rows$y == 1, "one", "zero")) else rows$y
  target <- if (binary) ResponseBinaryClassif$new("y", "one", as.character(data$y)) else "y"
  if (binary) data$y <- NULL
  make <- if (optimizer == "accelerated") OptimizerAGBM$new(momentum, threads)
    else OptimizerCoordinateDescent$new(threads)
  model <- Compboost$new(data, target,
    loss = if (binary) LossBinomial$new() else LossQuadratic$new(),
    learning_rate = rate, optimizer = make)
  for (j in seq_along(columns)) {
    if (kinds[j] == "level") {
      model$addBaselearner(columns[j], "ridge", BaselearnerCategoricalRidge, df = 5)
    } else if (linear) {
      model$addBaselearner(columns[j], "linear", BaselearnerPolynomial, degree = 1, intercept = TRUE)
    } else {
      model$addBaselearner(columns[j], "spline", BaselearnerPSpline, df = 5, n_knots = 20,
        bin_root = if (optimizer == "unbinned") 0 else 2)
    }
  }
  model$train(iterations, trace = 0)
  list(
    score = function(new) as.numeric(model$predict(new$frame)),
    terms = function() length(unique(model$getSelectedBaselearner()))
  )
}

fit_mboost <- function(rows) {
  data <- rows$frame
  coded <- columns[kinds == "level"]
  for (column in coded) data[[column]] <- factor(data[[column]])
  known <- lapply(data[coded], levels)
  data$y <- if (loss == "binomial") factor(rows$y) else rows$y
  learner <- ifelse(kinds == "level", "bols(%s, df = 5)",
    if (linear) "bols(%s)" else "bbs(%s, df = 5, knots = 20)")
  formula <- as.formula(paste("y ~", paste(sprintf(learner, columns), collapse = " + ")))
  family <- switch(loss, squared = Gaussian(), binomial = Binomial(), poisson = Poisson())
  constant <- log(sum(rows$y) / sum(rows$exposure))
  offset <- if (loss == "poisson") constant + log(rows$exposure) else NULL
  model <- mboost(formula, data = data, family = family, offset = offset,
    control = boost_control(mstop = iterations, nu = rate))
  times <- if (loss == "binomial") 2 else 1  # its score is half the logit
  list(
    score = function(new) {
      frame <- new$frame
      for (column in coded) frame[[column]] <- factor(frame[[column]], levels = known[[column]])
      if (is.null(offset)) return(times * as.numeric(predict(model, frame)))
      constant + rowSums(predict(model, frame, which = sort(unique(selected(model)))))
    },
    terms = function() length(unique(selected(model)))
  )
}

suppressPackageStartupMessages(library(package, character.only = TRUE))
train <- read_rows("train")
test <- read_rows("test")
invisible(gc())
forget_peak()
before <- memory("VmRSS")
fit_seconds <- system.time(
  model <- switch(package, compboost = fit_compboost(train), mboost = fit_mboost(train))
)[["elapsed"]]
added <- max(0, memory("VmHWM") - before)
predict_seconds <- system.time(scores <- model$score(test))[["elapsed"]]
writeBin(as.double(scores), file.path(folder, "scores.bin"))
figures <- c(fit_seconds = fit_seconds, megabytes = added, predict_seconds = predict_seconds,
  terms = model$terms())
writeLines(paste(names(figures), figures), file.path(folder, "figures.txt"))
