// Puts the page together: all sections, the navigation bar, themes and printing.
// --- the last sections: edits and code ------------------------------------------------------------

function edits() {
  if (!data.edits.length) return null;
  const touched = groups.filter((group) => group.edited);
  return section(
    "edits",
    "What was changed",
    "This model was edited after the fit. The risks and the path above belong to the fit before the edits.",
    null,
    h(
      "ol",
      { class: "edits" },
      data.edits.map(({ words }) => h("li", { dir: "auto", text: cut(words, 600) })),
    ),
    h(
      "div",
      { class: "effects" },
      touched.map((group) => effectCard(group, `edited-${group.id}`)),
    ),
  );
}

function repeat() {
  const copy = h("button", {
    type: "button",
    text: "Copy",
    onclick: async () => {
      try {
        await navigator.clipboard.writeText(data.repeat);
        copy.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        copy.textContent = "Selected";
      }
      setTimeout(() => {
        copy.textContent = "Copy";
      }, 2000);
    },
  });
  const code = h(
    "pre",
    { tabindex: "0", "aria-label": "Python code" },
    h("code", { text: data.repeat }),
  );
  return section(
    "repeat",
    "Fit it again",
    "The settings of the fit as code. Supply your own table and y.",
    [copy],
    code,
  );
}

// --- the page ------------------------------------------------------------------------------------

const api = {
  model,
  rowFrom,
  /** Return score and response of a row, given as {column: value}. */
  predict(cells, fixed) {
    if (data.cannot_predict) throw new Error(data.cannot_predict);
    const score = model.score(rowFrom(cells), fixed);
    return { score, response: model.response(score) };
  },
};
window.cwboostReport = api;

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  redraw();
  changed();
}

function topbar(sections) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let own = null;
  const button = h("button", {
    type: "button",
    id: "theme",
    onclick: () => {
      own = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      apply();
    },
  });
  const apply = () => {
    const theme = own ?? (dark.matches ? "dark" : "light");
    setTheme(theme);
    button.replaceChildren(
      theme === "dark" ? "☀" : "☾",
      h("span", { text: theme === "dark" ? " Light" : " Dark" }),
    );
    button.setAttribute("aria-label", `use ${theme === "dark" ? "light" : "dark"} colours`);
  };
  dark.addEventListener("change", apply);
  addEventListener("beforeprint", () => {
    setTheme("light");
    wholeForPrint.forEach((act) => act());
    drawForPrint();
  });
  addEventListener("afterprint", apply);
  const links = sections.map((one) =>
    h("a", { href: `#${one.id}`, text: one.querySelector("h2").textContent }),
  );
  const watch = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (!isIntersecting) continue;
        for (const link of links) {
          if (link.getAttribute("href") === `#${target.id}`)
            link.setAttribute("aria-current", "true");
          else link.removeAttribute("aria-current");
        }
      }
    },
    { rootMargin: "-15% 0px -75% 0px" },
  );
  sections.forEach((one) => watch.observe(one));
  return {
    bar: h(
      "div",
      { class: "topbar" },
      h("div", {}, h("nav", { "aria-label": "sections" }, links), classPicker(), button),
    ),
    apply,
  };
}

function classPicker() {
  if (model.q === 1) return null;
  const select = h(
    "select",
    {
      id: "class",
      onchange: () => {
        state.output = Number(select.value);
        changed();
        redraw();
      },
    },
    data.outputs.map((name, o) =>
      h("option", { value: o, text: cut(name === "" ? "(empty)" : name, 60) }),
    ),
  );
  select.value = String(state.output);
  return h("label", {}, h("span", { text: "class" }), select);
}

function subtitle() {
  const what = data.target ? cut(data.target, 80) : "the target";
  const of =
    isProbability && model.q === 1
      ? `the probability that ${what} is ${cut(data.classes[1], 60)}`
      : isProbability
        ? `the probabilities of ${data.outputs.length} classes of ${what}`
        : data.aim === "prediction"
          ? what
          : `${data.aim} of ${what}`;
  const edited = data.edits.length
    ? ` Edited after the fit: ${data.edits.length} ${data.edits.length === 1 ? "change" : "changes"}.`
    : "";
  return `A sum of ${inModel.length} effects that predicts ${of}.${edited}`;
}

function build() {
  const sections = [
    overview(),
    growth(),
    importance(),
    effects(),
    interactions(),
    onePrediction(),
    edits(),
    repeat(),
  ].filter(Boolean);
  const top = topbar(sections);
  document.getElementById("app").append(
    top.bar,
    h(
      "main",
      {},
      h(
        "header",
        {},
        h("h1", { dir: "auto", text: cut(data.title, 300) }),
        h("p", { dir: "auto", text: subtitle() }),
      ),
      ...sections,
      h("footer", {
        text: `Made by cwboost ${data.version}. This file is self-contained: it loads nothing and sends nothing.`,
      }),
    ),
  );
  top.apply();
}

build();
