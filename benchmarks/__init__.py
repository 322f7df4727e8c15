"""Speed and size of Lastgood beside its peers: `make bench`.

A measurement (one workload, one store, one repetition) is a process of its own. The stores of a
workload run one after the other inside a repetition, and ratios are formed inside a repetition
before the median is taken, so that a busy moment of the machine hits both sides.

data       the generated conversations
stores     the stores, each behind the small interface of its workload
workloads  what is done and measured, and the ratios to reach
report     medians, ratios, tables, the result file
"""
