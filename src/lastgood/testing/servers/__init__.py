"""Real servers for tests: PostgreSQL, PgBouncer, Valkey, Redis 6.2 and a Valkey Cluster.

Each is a program that is there already or comes in a wheel, started as a child process of the
test run, as root or not, without docker. It keeps its files in a temporary directory of its own
and ends with the process that started it, whatever ends that. The standard library is all it takes.

    with PostgresServer() as server:
        psycopg.connect(server.url)

    places      the directories, and what becomes of those of dead processes
    process     a server as a process: start, stop, kill, start again
    programs    where the programs are; `ServerMissing` if nowhere
    packages    a Debian package unpacked where it disturbs nothing
    ports       free ports on the loopback interface
    resp        one question to a Redis server
    postgres, pgbouncer, valkey, cluster    the servers
    fleet       the servers of one test run, each started when a test needs it
    addresses   the environment variables by which tests find them
"""

from lastgood.testing.servers.addresses import VARIABLES, address
from lastgood.testing.servers.cluster import ValkeyCluster
from lastgood.testing.servers.fleet import Fleet
from lastgood.testing.servers.pgbouncer import PgBouncer
from lastgood.testing.servers.postgres import PostgresServer
from lastgood.testing.servers.process import Server, ServerError
from lastgood.testing.servers.programs import ServerMissing
from lastgood.testing.servers.valkey import Redis62Server, ValkeyServer

__all__ = [
    "VARIABLES",
    "Fleet",
    "PgBouncer",
    "PostgresServer",
    "Redis62Server",
    "Server",
    "ServerError",
    "ServerMissing",
    "ValkeyCluster",
    "ValkeyServer",
    "address",
]
