"""The benchmark of object stores, small: all clients read and write the same."""

from benchmarks import object_stores


def test_every_client_does_all_of_the_work():
    found = object_stores.main([*object_stores.QUICK])
    assert len(found) == 15
    for line in found:
        clients = {name: rate for name, rate in line.rates.items() if not name.endswith(" CPU")}
        assert set(clients) == set(object_stores.CLIENTS)
        assert all(rate > 0 for rate in clients.values())
        assert line.measured > 0
