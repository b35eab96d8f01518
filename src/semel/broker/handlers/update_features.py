"""UpdateFeatures (57), versions 0-2: agree on other levels of the cluster's features.

    0   a downgrade is allowed or not
    1+  the kind of change: upgrade, safe downgrade, unsafe downgrade; and only to validate it
    2+  one result for all, as always: if one change is refused, none is made

To be at a level already is no error, whatever the kind.
"""

from typing import Final

from semel.broker.context import RequestContext
from semel.broker.features import SUPPORTED, level
from semel.broker.parts import Administration
from semel.core.metadata.rows import FeatureRow
from semel.core.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from semel.errors import ErrorCode, LogError

_KIND_SINCE: Final = 1
_ONE_RESULT_SINCE: Final = 2
_UPGRADE: Final = 1
_DOWNGRADES: Final = (2, 3)


async def handle(
    broker: Administration, request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse:
    """Make every change or none."""
    for update in request.feature_updates:
        flaw = _flaw(broker, update, context.version)
        if flaw is not None:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION,
                error_message="The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {flaw}",
            )
    image = broker.store.image
    rows = [
        FeatureRow(update.feature, update.max_version_level, image.features_epoch + 1)
        for update in request.feature_updates
        if level(image, update.feature) != update.max_version_level
    ]
    if rows and not request.validate_only:
        try:
            await broker.store.commit(rows)
        except LogError as error:
            return UpdateFeaturesResponse(error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=str(error))
    results = [
        UpdatableFeatureResult(feature=update.feature, error_message="NONE")
        for update in request.feature_updates
    ]
    return UpdateFeaturesResponse(
        error_message=None, results=results if context.version < _ONE_RESULT_SINCE else []
    )


def _flaw(broker: Administration, update: FeatureUpdateKey, version: int) -> str | None:
    wanted = update.max_version_level
    may_downgrade = update.allow_downgrade
    if version >= _KIND_SINCE:
        if update.upgrade_type not in (_UPGRADE, *_DOWNGRADES):
            return "The controller does not support the given upgrade type."
        may_downgrade = update.upgrade_type in _DOWNGRADES
    if wanted < 0:
        return "A feature version cannot be less than 0."
    if update.feature not in SUPPORTED:
        return f"Local controller {broker.node_id} does not support this feature."
    low, high = SUPPORTED[update.feature]
    if not low <= wanted <= high:
        return f"Local controller {broker.node_id} only supports versions {low}-{high}"
    if wanted < level(broker.store.image, update.feature) and not may_downgrade:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    return None
