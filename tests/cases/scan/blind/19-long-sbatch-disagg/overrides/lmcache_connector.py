class LMCacheConnectorV1Impl:
    pass
