"""Models as files and code: JSON, SQL, ONNX, score tables."""
