package opencl

import (
	"errors"
	"unsafe"
)

// cudaGraph is an instantiated graph.
type cudaGraph struct{ handle uintptr }

// begin starts a capture that end finishes. The goroutine stays locked to its
// thread.
func (c *cudaContext) begin() error {
	err := c.enter()
	if err == nil {
		err = c.do(cuStreamBeginCapture, c.stream, cudaRelaxed)
	}
	if err != nil {
		c.leave()
	}
	return err
}

// end instantiates the captured graph.
func (c *cudaContext) end() (g cudaGraph, err error) {
	defer c.leave()
	made := new(struct{ collected, graph uintptr })
	if err := c.doEscaping(cuStreamEndCapture, c.stream, uintptr(unsafe.Pointer(&made.collected))); err != nil {
		return g, err
	}
	err = c.doEscaping(cuGraphInstantiate, uintptr(unsafe.Pointer(&made.graph)), made.collected, 0)
	return cudaGraph{made.graph}, errors.Join(err, c.do(cuGraphDestroy, made.collected))
}

// launch captures a kernel launch with the kernel's current arguments.
func (c *cudaContext) launch(k *Kernel, global, local []int) error {
	c.values, c.places = c.values[:0], c.places[:0]
	for _, a := range k.arguments {
		value := uintptr(a.bits)
		if a.memory != nil {
			if a.memory.shared == nil {
				return errNotShared
			}
			value = a.memory.shared.address
		}
		c.values = append(c.values, value)
	}
	for i := range c.values {
		c.places = append(c.places, uintptr(unsafe.Pointer(&c.values[i])))
	}
	grid, group := [3]uintptr{1, 1, 1}, [3]uintptr{1, 1, 1}
	for i := range global {
		grid[i], group[i] = uintptr((global[i]+local[i]-1)/local[i]), uintptr(local[i])
	}
	return c.doEscaping(cuLaunchKernel, k.function, grid[0], grid[1], grid[2], group[0], group[1], group[2],
		0, c.stream, uintptr(unsafe.Pointer(&c.places[0])), 0)
}

// copyIn captures a copy from pinned memory.
func (c *cudaContext) copyIn(to *Memory, off int, from uintptr, size int) error {
	if to.shared == nil {
		return errNotShared
	}
	return c.do(cuMemcpyHtoDAsync, to.shared.address+uintptr(off), from, uintptr(size), c.stream)
}

// copyOut captures a copy to pinned memory.
func (c *cudaContext) copyOut(from *Memory, off int, to uintptr, size int) error {
	if from.shared == nil {
		return errNotShared
	}
	return c.do(cuMemcpyDtoHAsync, to, from.shared.address+uintptr(off), uintptr(size), c.stream)
}

// run runs a graph and waits until it is done.
func (c *cudaContext) run(g cudaGraph) error {
	defer c.leave()
	if err := c.enter(); err != nil {
		return err
	}
	if err := c.do(cuGraphLaunch, g.handle, c.stream); err != nil {
		return err
	}
	return c.do(cuStreamSynchronize, c.stream)
}

func (c *cudaContext) closeGraph(g cudaGraph) error {
	if g.handle == 0 {
		return nil
	}
	defer c.leave()
	return errors.Join(c.enter(), c.do(cuGraphExecDestroy, g.handle))
}
