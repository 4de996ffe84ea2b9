"""Waivers: the document that is rendered from a stack, the rules that hold the two together, and the scan for
patching that nobody declared."""
