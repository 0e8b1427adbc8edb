"""The report endpoint: what pods of TrainingJobs tell the operator, and what they are told.

`service.ReportService` has the questions and answers, without HTTP; `view.report_app` is a thin
view of it, `server.ReportServer` serves that. Pods prove who they are with a token of their own
(`identity`); checkpoints in object stores go through signed URLs (`uploads`, `restores`), those on
volumes are only announced. Names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.lazy import lazily

if TYPE_CHECKING:
    from corral.operator.reports.server import ReportServer
    from corral.operator.reports.service import ReportService, ReportSettings
    from corral.operator.reports.uploads import UploadSettings
    from corral.operator.reports.view import report_app
    from corral.operator.reports.views import CachedViews, LiveViews

_HOMES = {
    "server": "ReportServer",
    "service": "ReportService ReportSettings",
    "uploads": "UploadSettings",
    "view": "report_app",
    "views": "CachedViews LiveViews",
}

__all__ = [
    "CachedViews",
    "LiveViews",
    "ReportServer",
    "ReportService",
    "ReportSettings",
    "UploadSettings",
    "report_app",
]

__getattr__ = lazily(__name__, _HOMES)
