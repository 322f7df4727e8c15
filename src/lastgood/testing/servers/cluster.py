"""Three Valkey servers that form one Cluster on the loopback interface, without replicas.

It takes two seconds to start: a node that comes up waits so long before it takes part.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Self

from lastgood.testing.servers.process import START_SECONDS, ServerError
from lastgood.testing.servers.valkey import ValkeyServer

NODES = 3
SLOTS = 16384
SETTINGS = {"cluster-enabled": "yes", "cluster-node-timeout": "2000"}


class ValkeyCluster:
    """A Cluster; each of `nodes` is a server that can be killed and started again."""

    name = "Valkey Cluster"

    def __init__(self, *, fsync: bool = False) -> None:
        self.nodes = [ValkeyServer(fsync=fsync, tcp=True, settings=SETTINGS) for _ in range(NODES)]
        self._formed = False

    @property
    def url(self) -> str:
        """Where clients find the first node, which tells them of the others."""
        return self.nodes[0].url.removesuffix("/0")

    def start(self) -> Self:
        """Start the nodes that are not running; returns when all of them see a whole Cluster."""
        for node in self.nodes:
            if not node.running:
                node.start()
        if not self._formed:
            self._form()
            self._formed = True
        self._wait_until_whole()
        return self

    def stop(self) -> None:
        """Stop every node."""
        for node in self.nodes:
            node.stop()

    def close(self) -> None:
        """Stop every node and remove its files."""
        with ExitStack() as all_of_them:
            for node in self.nodes:
                all_of_them.callback(node.close)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def _form(self) -> None:
        share = -(-SLOTS // NODES)
        for index, node in enumerate(self.nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(index + 1))
            first, last = index * share, min((index + 1) * share, SLOTS) - 1
            node.ask("CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
        for node in self.nodes[1:]:
            self.nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", str(node.port))

    def _wait_until_whole(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not all(map(sees_whole_cluster, self.nodes)):
            if time.monotonic() > deadline:
                raise ServerError(f"{self.name} is not whole:\n{self.nodes[0].log_tail()}")
            time.sleep(0.02)


def sees_whole_cluster(node: ValkeyServer) -> bool:
    """Whether a node knows all nodes and finds every slot served."""
    told = node.ask("CLUSTER", "INFO")
    assert isinstance(told, bytes)
    lines = told.decode().split()
    return "cluster_state:ok" in lines and f"cluster_known_nodes:{NODES}" in lines
