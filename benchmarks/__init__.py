"""Speed and size of Lastgood beside its peers: `make bench`.

A measurement (one workload, one store, one round) is a process of its own. The stores of a
workload run one after the other inside a round, and ratios are formed inside a round before the
median is taken, so that a busy moment of the machine hits both sides.

data, messages   the generated conversations, as dicts and as LangChain messages
scenarios        states that change step by step
stores/          the stores, each behind the small interface of its shape of work
workloads/       what is done and measured, and what Lastgood has to reach there
gates, figures   the kinds of things to reach; what a measurement gives
report           medians, verdicts, tables, the result file
page, charts     docs/benchmarks.md and its pictures, from a result file: `make bench-page`
"""
