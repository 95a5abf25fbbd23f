"""The commands of `keyspread`, one module each; all imports that take long are inside them."""
