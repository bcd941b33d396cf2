"""The action cache and the content-addressed store. The only package that imports diskcache."""
