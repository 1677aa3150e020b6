"""Programs in MSCCL's XML, written by hand for the tests."""

# All nine step types. Of two chunks, the first is reduced along ranks 0, 1, 2 and sent on around;
# the second is reduced on rank 0, which gives it to the others.
NINE = """\
<?xml version="1.0"?>
<algo name="nine" proto="Simple" nchannels="5" nchunksperloop="2" ngpus="3"
coll="allreduce" inplace="1">
<gpu id="0" i_chunks="2" o_chunks="0" s_chunks="1">
<tb id="0" send="1" recv="2" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1"/>
<step s="1" type="rcs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1"/>
</tb>
<tb id="1" send="-1" recv="1" chan="2">
<step s="0" type="rrc" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1"/>
</tb>
<tb id="2" send="-1" recv="2" chan="3">
<step s="0" type="r" srcbuf="s" srcoff="0" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1"/>
</tb>
<tb id="3" send="-1" recv="-1" chan="0">
<step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" depid="1" deps="0"/>
<step s="1" type="re" srcbuf="s" srcoff="0" dstbuf="i" dstoff="1" cnt="1" depid="2" deps="0"/>
</tb>
<tb id="4" send="1" recv="-1" chan="4">
<step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="3" deps="1"/>
</tb>
<tb id="5" send="2" recv="-1" chan="4">
<step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="3" deps="1"/>
</tb>
</gpu>
<gpu id="1" i_chunks="2" o_chunks="0" s_chunks="0">
<tb id="0" send="2" recv="0" chan="0">
<step s="0" type="rrs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1"/>
<step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1"/>
</tb>
<tb id="1" send="0" recv="-1" chan="2">
<step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1"/>
</tb>
<tb id="2" send="-1" recv="0" chan="4">
<step s="0" type="r" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1"/>
</tb>
</gpu>
<gpu id="2" i_chunks="2" o_chunks="0" s_chunks="1">
<tb id="0" send="0" recv="1" chan="0">
<step s="0" type="rrcs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1"/>
</tb>
<tb id="1" send="0" recv="-1" chan="3">
<step s="0" type="cpy" srcbuf="i" srcoff="1" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1"/>
<step s="1" type="s" srcbuf="s" srcoff="0" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1"/>
</tb>
<tb id="2" send="-1" recv="0" chan="4">
<step s="0" type="r" srcbuf="i" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1"/>
</tb>
</gpu>
</algo>
"""

# An all-gather of two chunks a rank, not in place: one message of both, and a copy.
GATHER = """\
<algo name="gather" ngpus="2" coll="allgather" nchunksperloop="4" inplace="0">
<gpu id="0" i_chunks="2" o_chunks="4" s_chunks="0">
<tb id="0" send="1" recv="1" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1"/>
<step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="2" cnt="2" depid="-1" deps="-1"/>
<step s="2" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1"/>
</tb>
</gpu>
<gpu id="1" i_chunks="2" o_chunks="4" s_chunks="0">
<tb id="0" send="0" recv="0" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="2" cnt="2" depid="-1" deps="-1"/>
<step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="2" depid="-1" deps="-1"/>
<step s="2" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="2" cnt="2" depid="-1" deps="-1"/>
</tb>
</gpu>
</algo>
"""
