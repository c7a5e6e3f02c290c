"""Helpers that know nothing about models: argument checks, threads, memory, files, fingerprints."""
