"""Imports from Amaranth beside its public interface, of the version that is pinned."""

from amaranth.hdl._ast import SignalDict as SignalDict
from amaranth.hdl._ast import SignalSet as SignalSet
from amaranth.hdl._ir import Design as Design
from amaranth.hdl._ir import PortDirection as PortDirection
from amaranth.hdl._mem import MemoryInstance as MemoryInstance
from amaranth.hdl._xfrm import FragmentTransformer as FragmentTransformer
from amaranth.hdl._xfrm import StatementTransformer as StatementTransformer
from amaranth.hdl._xfrm import ValueTransformer as ValueTransformer
