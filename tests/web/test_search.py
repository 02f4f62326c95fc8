"""`GET search`: one-time queries over what is stored now, best first."""

from __future__ import annotations

from tests.web.serving import error_of


def publish(client, *documents: dict) -> None:
    for document in documents:
        assert client.post("documents", json=document).json()["accepted"] == 1


def test_stored_documents_answer_at_once_best_first_and_page_by_page(served):
    client = served.client()
    publish(client, *({"id": f"d{n}", "text": "peer " * n + "grid " * (9 - n)} for n in range(1, 8)))
    found = client.get("search", params={"q": "peer", "limit": 3}).json()
    assert found["total"] == 7
    assert [hit["document"] for hit in found["items"]] == ["d7", "d6", "d5"]
    rest = client.get("search", params={"q": "peer", "limit": 10, "after": found["next"]}).json()
    assert [hit["document"] for hit in rest["items"]] == ["d4", "d3", "d2", "d1"]
    assert rest["next"] is None


def test_nested_queries_replaced_and_deleted_documents(served):
    client = served.client()
    publish(
        client,
        {"id": "na", "text": "networks", "author": ["Bob", "Carol"]},
        {"id": "nb", "text": "x", "author": "Carol"},
    )
    publish(
        client,
        {"id": "nc", "text": "old heron"},
        {"id": "nc", "version": 2, "text": "egret"},
        {"id": "nd", "text": "heron"},
    )
    assert client.delete("documents/nd").status_code == 202

    def found(query: str) -> set[str]:
        return {hit["document"] for hit in client.get("search", params={"q": query}).json()["items"]}

    assert found("author:IN:(networks AND author:Bob)") == {"na", "nb"}
    assert found("heron") == set()
    assert found("egret") == {"nc"}


def test_a_mistake_is_shown_where_it_is(served):
    client = served.client()
    error = error_of(client.get("search", params={"q": "peer AND (grid"}), 422, "query_syntax")
    assert error["position"] == 9
    error_of(client.get("search"), 422)
    for after in ("nonsense!", "NQ", "W251bGwsIngiXQ"):  # no base64, a number, [null, "x"]
        error_of(client.get("search", params={"q": "x", "after": after}), 422, "bad_cursor")
    assert client.get("search", params={"q": "x", "after": ""}).status_code == 200
