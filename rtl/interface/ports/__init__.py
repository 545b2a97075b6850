"""The bundles of signals between units, each written from the side that drives most of it.

What is Out here is driven by the unit that has the bundle as Out; the other side has it as In,
and `connect` joins the two. `en` says that the members beside it count in this cycle, unless
something else is said. A bundle's ports in Verilog are called bundle_member.
"""
