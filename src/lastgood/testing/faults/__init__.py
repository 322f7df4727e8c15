"""Tools that break things on purpose: power cuts, full and failing disks, kills, bad networks.

`disk` needs `apsw`. Each stands alone:

    disk      a disk that records every write and can refuse any of them, behind `connect=`
    power     what may be left of the files of such a disk after a power cut
    kills     a backend that ends its own process at a named point of a commit
    proxy     a network between a client and a server that delays, cuts, swallows and counts
    store     everything that a store answers as one comparable value, checked for soundness
"""
