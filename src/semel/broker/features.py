"""Features of the cluster: what this broker could do, and the level that is agreed on.

Role.   ApiVersions tells clients; UpdateFeatures changes levels; handlers ask whether a feature is on.
Rules.  * In a cluster under ZooKeeper every feature is off, and none is shown: a Kafka broker that sees one it does not know exits.
        * Elsewhere a feature nobody set is at its highest level: a new cluster has everything.
        * `group.version` 1 stands for KIP-848 groups, `transaction.version` 2 for transactions v2 (KIP-890). Clients use what
          is agreed on; a broker serves older clients too.
        * Every change has an epoch of its own, kept with it: clients ignore what is older than what they know.
"""

from collections.abc import Mapping
from typing import Final

from semel.core.metadata.image import MetadataImage
from semel.core.wire.api_versions import Features

GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
SUPPORTED: Final[Mapping[str, tuple[int, int]]] = {GROUP_VERSION: (0, 1), TRANSACTION_VERSION: (0, 2)}


def level(image: MetadataImage, name: str) -> int:
    """The level a feature is at; 0 is off."""
    return image.features.get(name, 0 if image.is_told else SUPPORTED[name][1])


def features(image: MetadataImage) -> Features:
    """Everything ApiVersions tells of features."""
    if image.is_told:
        return Features(finalized_epoch=image.features_epoch)
    return Features(
        supported=SUPPORTED,
        finalized={name: level(image, name) for name in SUPPORTED},
        finalized_epoch=image.features_epoch,
    )
