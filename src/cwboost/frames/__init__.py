"""Any table as typed columns; tables as files. The only package that knows narwhals."""
