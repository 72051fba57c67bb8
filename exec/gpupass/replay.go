package gpupass

import (
	"errors"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/hetero/opencl"
)

// One token after another takes the same launches with the same arguments, as long as
// they are of one text, whose memory stays where it is, and attention divides the context
// alike. What differs is in the memory that is sent first. So the second such token's
// commands are recorded, and from then on the driver submits them as one, where it can:
// the host takes microseconds for what were 0.7 ms, and the device loses less between
// kernels.

// graphReserve is what CUDA takes of the device's memory beside what it is asked for: 516 MiB
// of an H200. Smaller devices were not seen.
const graphReserve = 544 << 20

var errNoGraphMemory = errors.New("gpu: too little of the device's memory is left for graphs")

// openGraphs gets ready for recordings, which need all that a token reads and writes in
// memory made for them, if the device has room for that beside everything else. Whatever
// keeps the driver from them, launches do as well.
func (n *Network) openGraphs() {
	r, c := &n.replay, n.context
	// A text has memory for each layer, and as much again while it grows.
	more := graphReserve + int64(1+2*len(n.layers))*opencl.RecordableGranularity
	if n.needed+more > c.Info.Memory-c.Info.Memory/spareFraction {
		r.refused = errNoGraphMemory
	} else if r.refused = c.OpenGraphs(); c.CanRecord() {
		n.needed += more
	}
}

// replay is a token's pass as one command.
type replay struct {
	graph   *opencl.Graph
	in, out []float32 // as the host sees them
	warm    bool      // a token was read since anything changed
	refused error     // why nothing is recorded any more
}

// NotRecorded tells why the driver cannot submit a token's commands as one, once that was
// tried.
func (n *Network) NotRecorded() error { return n.replay.refused }

// useRecording reports whether a token's commands are recorded. It records them when that
// will be of use: a recording takes the time that some tokens save.
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

// record collects the commands of a pass with logits.
func (n *Network) record(g *opencl.Graph, c *exec.Chunk) error {
	r, t := &n.replay, &n.one
	in, err := g.Send(t.memory, 0, 4*len(t.input))
	if err != nil {
		return err
	}
	for l := range n.layers {
		if err := n.runLayerOne(l, c); err != nil {
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

// replayOne reads a token whose row, state and angles are in the staging buffer.
func (n *Network) replayOne(c *exec.Chunk) error {
	r := &n.replay
	copy(r.in, n.one.input)
	if err := r.graph.Launch(); err != nil {
		r.refused = err // others are launched
		return errors.Join(err, n.dropRecording())
	}
	return c.Each(0, r.out)
}

// dropRecording drops what was recorded, because the next token's pass is another.
func (n *Network) dropRecording() error {
	r := &n.replay
	g := r.graph
	r.graph, r.in, r.out, r.warm = nil, nil, nil, false
	return g.Close()
}
