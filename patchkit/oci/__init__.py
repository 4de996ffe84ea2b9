"""Images: manifests, layers, layouts, registries; transforms that make a new image of one, and edges that move blobs."""
