package gpupass

import (
	"errors"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/hetero/opencl"
)

// Consecutive tokens of one sequence take the same launches with the same
// arguments, as long as the sequence's memory does not move and the context split
// does not change. Only the contents of the input buffer, which is sent first,
// differ. So the network records the commands of the second such token, and the
// driver submits the following tokens as one command, if it supports that: the host
// needs microseconds instead of 0.7 ms, and the gaps between kernels are smaller.

// graphReserve is the device memory that CUDA takes for itself: 516 MiB on an H200.
// Smaller devices were not tested.
const graphReserve = 544 << 20

var errNoGraphMemory = errors.New("gpu: not enough device memory for graphs")

// openGraphs enables recordings, which need everything that a token accesses in
// recordable memory, if the device has room for that. Without recordings, commands
// are launched one by one.
func (n *Network) openGraphs() {
	r, c := &n.replay, n.context
	// A sequence has one buffer per layer, and two while it grows.
	more := graphReserve + int64(1+2*len(n.layers))*opencl.RecordableGranularity
	if n.needed+more > c.Info.Memory-c.Info.Memory/spareFraction {
		r.refused = errNoGraphMemory
	} else if r.refused = c.OpenGraphs(); c.CanRecord() {
		n.needed += more
	}
}

// replay is the recorded pass of one token.
type replay struct {
	graph   *opencl.Graph
	in, out []float32 // the host's view
	warm    bool      // a token was computed since the last change
	refused error     // why nothing is recorded any more
}

// NotRecorded returns why the driver cannot submit a token's commands as one, after
// the first attempt.
func (n *Network) NotRecorded() error { return n.replay.refused }

// useRecording reports whether the token's commands are recorded. It records at the
// second token, because a recording costs the time that several tokens save.
func (n *Network) useRecording(c *exec.Chunk) bool {
	r := &n.replay
	if r.refused != nil || len(c.Want) == 0 || !n.context.CanRecord() {
		return false
	}
	if r.graph == nil && r.warm {
		r.graph, r.refused = n.context.Record(func(g *opencl.Graph) error { return n.record(g, c) })
	}
	r.warm = true
	return r.graph != nil
}

// record records the commands of a pass with logits.
func (n *Network) record(g *opencl.Graph, c *exec.Chunk) error {
	r, t := &n.replay, &n.single
	in, err := g.Send(t.memory, 0, 4*len(t.input))
	if err != nil {
		return err
	}
	for l := range n.layers {
		if err := n.runLayerSingle(l, c); err != nil {
			return err
		}
	}
	if err := n.head.Launch(); err != nil {
		return err
	}
	out, err := g.Read(t.memory, 4*t.logits, 4*len(t.result))
	r.in, r.out = pageFloats(in), pageFloats(out)
	return err
}

// replaySingle runs the recorded pass of a token whose input, state and angles are in
// the staging buffer.
func (n *Network) replaySingle(c *exec.Chunk) error {
	r := &n.replay
	copy(r.in, n.single.input)
	if err := r.graph.Launch(); err != nil {
		r.refused = err // fall back to launches
		return errors.Join(err, n.dropRecording())
	}
	return c.Each(0, r.out)
}

// dropRecording drops the recording, because the next token's pass differs.
func (n *Network) dropRecording() error {
	r := &n.replay
	g := r.graph
	r.graph, r.in, r.out, r.warm = nil, nil, nil, false
	return g.Close()
}
