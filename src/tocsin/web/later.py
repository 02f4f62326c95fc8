"""Forms that the contract names and that are not built yet: they answer 501 `not_yet`, and no guess."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from tocsin.web.answers import not_yet
from tocsin.web.caller import Admitted
from tocsin.web.routes import BASE
from tocsin.web.schemas import ERROR, NOT_YET

router = APIRouter(prefix=BASE, tags=["not built yet"], responses=ERROR)


@router.post("/events", summary="Events of relations", responses=NOT_YET, status_code=501)
async def events(caller: Admitted) -> Response:
    """Not built yet."""
    raise not_yet("events")


@router.post("/views", summary="Relations and views", responses=NOT_YET, status_code=501)
async def views(caller: Admitted) -> Response:
    """Not built yet."""
    raise not_yet("views")
