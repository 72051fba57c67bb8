package opencl

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/llmrun/llmrun/tiering"
)

// Graph is a recorded sequence of commands that the context submits in one step.
type Graph struct {
	context *Context
	cuda    cudaGraph
	steps   []func() error // the commands, if graphs are emulated
	copies  []hostCopy
	counts  Stats // added to the context's counts by each launch
}

// hostCopy is host memory that a graph copies from or to.
type hostCopy struct {
	stage  *Memory // the host memory, if graphs are emulated
	pinned uintptr
	lease  *tiering.Lease
}

// Record calls commands and records what it submits: launches of recordable kernels
// with their current arguments, and copies by Graph.Send and Graph.Read. These run
// only when the graph is launched. The function must not submit other commands.
func (c *Context) Record(commands func(*Graph) error) (g *Graph, err error) {
	if !c.CanRecord() {
		return nil, errNoGraphs
	}
	g = &Graph{context: c}
	if c.cuda != nil {
		err = c.cuda.begin()
	}
	if err == nil {
		c.recording = g
		err = commands(g)
		c.recording = nil
		if c.cuda != nil {
			var ended error
			g.cuda, ended = c.cuda.end()
			err = errors.Join(err, ended)
		}
	}
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// launch records a kernel launch.
func (g *Graph) launch(k *Kernel, global, local []int) error {
	if k.unrecordable != nil {
		return fmt.Errorf("%s: %w", k.name, k.unrecordable)
	}
	g.counts.Launches++
	if g.context.cuda != nil {
		return g.context.cuda.launch(k, global, local)
	}
	// Not slices.Clone: with it the sizes of all launches escape to the heap.
	groups, group := append([]int(nil), global...), append([]int(nil), local...)
	arguments := slices.Clone(k.arguments)
	g.steps = append(g.steps, func() error {
		for i, a := range arguments {
			var err error
			if a.memory != nil {
				err = k.SetMemory(i, a.memory)
			} else {
				err = k.setBits(i, a.bits)
			}
			if err != nil {
				return err
			}
		}
		return g.context.Launch(k, groups, group)
	})
	return nil
}

// Send records a copy into a buffer and returns the host memory that it copies
// from.
func (g *Graph) Send(to *Memory, off, size int) ([]byte, error) {
	b, h, err := g.hostMemory(size)
	if err != nil {
		return nil, err
	}
	g.counts.Writes++
	g.counts.WriteBytes += int64(size)
	if h.stage == nil {
		return b, g.context.cuda.copyIn(to, off, h.pinned, size)
	}
	g.steps = append(g.steps, func() error { return to.Send(off, h.stage, 0, size) })
	return b, nil
}

// Read records a copy out of a buffer and returns the host memory that it copies
// to.
func (g *Graph) Read(from *Memory, off, size int) ([]byte, error) {
	b, h, err := g.hostMemory(size)
	if err != nil {
		return nil, err
	}
	g.counts.Reads++
	g.counts.ReadBytes += int64(size)
	if h.stage == nil {
		return b, g.context.cuda.copyOut(from, off, h.pinned, size)
	}
	g.steps = append(g.steps, func() error { return from.Read(off, b) })
	return b, nil
}

// hostMemory allocates host memory for a copy.
func (g *Graph) hostMemory(size int) (b []byte, h hostCopy, err error) {
	c := g.context
	if c.cuda == nil {
		if h.stage, err = c.Stage(tiering.Scratch, size); err != nil {
			return nil, h, err
		}
		b = h.stage.Host()
	} else {
		if h.lease, err = c.budget.Reserve(tiering.Scratch, int64(size)); err != nil {
			return nil, h, err
		}
		if h.pinned, b, err = c.cuda.pin(size); err != nil {
			h.lease.Release()
			return nil, h, err
		}
	}
	g.copies = append(g.copies, h)
	return b, h, nil
}

// Launch runs the graph after earlier commands and waits until it is done.
func (g *Graph) Launch() error {
	c := g.context
	c.stats.Graphs++
	if c.cuda == nil {
		for _, step := range g.steps {
			if err := step(); err != nil {
				return err
			}
		}
	}
	if c.busy { // CUDA does not see OpenCL's queue
		if err := c.Finish(); err != nil {
			return err
		}
	}
	if c.cuda == nil {
		return nil
	}
	start := time.Now()
	if err := c.cuda.run(g.cuda); err != nil {
		return err
	}
	c.drained(start)
	c.stats.Launches += g.counts.Launches
	c.stats.Writes += g.counts.Writes
	c.stats.WriteBytes += g.counts.WriteBytes
	c.stats.Reads += g.counts.Reads
	c.stats.ReadBytes += g.counts.ReadBytes
	return nil
}

// Close frees the graph's resources.
func (g *Graph) Close() error {
	if g == nil {
		return nil
	}
	var err error
	if g.context.cuda != nil {
		err = g.context.cuda.closeGraph(g.cuda)
	}
	for _, h := range g.copies {
		err = errors.Join(err, h.stage.Free())
		if h.pinned != 0 {
			err = errors.Join(err, g.context.cuda.unpin(h.pinned))
			h.lease.Release()
		}
	}
	g.cuda, g.copies, g.steps = cudaGraph{}, nil, nil
	return err
}
