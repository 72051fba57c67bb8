//go:build npu

package onnx

import (
	"errors"
	"unsafe"

	"github.com/llmrun/llmrun/hetero/onnx/graph"
)

// session is a graph that the provider has prepared.
type session struct {
	library *library
	handle  uintptr
	values  []uintptr // its weights, as tensors over our memory
	running []uintptr // arguments of a run, so that running takes no memory
}

// sessionOptions are what a session is made with.
type sessionOptions struct {
	provider string
	settings map[string]string
	saveTo   string // file for the prepared graph, "" for none
	// prepared says that the graph was prepared by the provider before: it holds
	// its weights, and nothing is left to optimize.
	prepared bool
	inPlace  bool // see Options
	// narrowSums says that the processor adds products of 8 bits in 16, where
	// two may be too much.
	narrowSums bool
}

// newSession prepares a graph with weights that stay where they are.
func (l *library) newSession(file []byte, weights []graph.Tensor, o sessionOptions) (*session, error) {
	options, err := l.create(fnCreateSessionOptions)
	if err != nil {
		return nil, err
	}
	defer l.free(fnReleaseSessionOptions, options)
	if err := l.configure(options, o); err != nil {
		return nil, err
	}
	s := &session{library: l}
	if !o.prepared {
		err = s.addWeights(options, weights)
	}
	if err == nil {
		var mem pinned
		defer mem.Unpin()
		s.handle, err = l.create(fnCreateSessionFromArray, l.env, pin(&mem, file), uintptr(len(file)), options)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// configure sets all that a session is made with.
func (l *library) configure(options uintptr, o sessionOptions) error {
	level := uintptr(optimizeAll)
	if o.prepared {
		level = optimizeNothing
	}
	err := errors.Join(
		l.call(fnDisablePerSessionThreads, options),
		l.call(fnSetGraphOptimizationLevel, options, level),
		// What a provider cannot do is an error. Otherwise the library would do it on
		// the CPU and say nothing.
		l.config(options, "session.disable_cpu_ep_fallback", flag(o.provider != cpuProvider)),
		l.config(options, "session.disable_prepacking", flag(o.inPlace)),
		l.config(options, "session.x64quantprecision", flag(o.narrowSums)), // slower, and exact
		l.appendProvider(options, o.provider, o.settings))
	if err == nil && o.saveTo != "" {
		err = l.save(options, o)
	}
	return err
}

// save asks for the prepared graph as a file: the CPU's is the optimized model,
// another provider's holds what its compiler made.
func (l *library) save(options uintptr, o sessionOptions) error {
	if o.provider == cpuProvider {
		var mem pinned
		defer mem.Unpin()
		return l.call(fnSetOptimizedModelFilePath, options, mem.path(o.saveTo))
	}
	return errors.Join(
		l.config(options, "ep.context_enable", "1"),
		l.config(options, "ep.context_embed_mode", "1"),
		l.config(options, "ep.context_file_path", o.saveTo))
}

// config sets an option that has a name.
func (l *library) config(options uintptr, key, value string) error {
	var mem pinned
	defer mem.Unpin()
	return l.call(fnAddSessionConfigEntry, options, mem.text(key), mem.text(value))
}

// flag is how the library spells yes and no.
func flag(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

// addWeights gives the session the weights that the graph names.
func (s *session) addWeights(options uintptr, weights []graph.Tensor) error {
	var mem pinned
	defer mem.Unpin()
	names := make([]string, len(weights))
	for i, t := range weights {
		value, err := s.library.tensor(address(t.Data), t)
		if err != nil {
			return err
		}
		names[i], s.values = t.Name, append(s.values, value)
	}
	return s.library.call(fnAddExternalInitializers, options, mem.texts(names), pin(&mem, s.values), uintptr(len(names)))
}

// tensor makes a tensor over memory outside Go's heap, which must stay until the
// tensor is released.
func (l *library) tensor(data uintptr, t graph.Tensor) (uintptr, error) {
	var mem pinned
	defer mem.Unpin()
	return l.create(fnCreateTensorWithData, l.memory, data, uintptr(t.Size()), pin(&mem, t.Dims), uintptr(len(t.Dims)), uintptr(t.Element))
}

// close gives the session back. Nothing of it may run.
func (s *session) close() {
	s.library.free(fnReleaseSession, s.handle)
	for _, v := range s.values {
		s.library.free(fnReleaseValue, v)
	}
}

// binding is a session with its operands in place.
type binding struct {
	handle   uintptr
	x, y     uintptr // tensors
	xAt, yAt uintptr // where they lie
}

// bind makes a session read and write memory outside Go's heap.
func (s *session) bind(x, y uintptr, in, out graph.Tensor) (b binding, err error) {
	l := s.library
	b.xAt, b.yAt = x, y
	var mem pinned
	defer mem.Unpin()
	defer func() {
		if err != nil {
			l.unbind(b)
		}
	}()
	if b.x, err = l.tensor(x, in); err != nil {
		return b, err
	}
	if b.y, err = l.tensor(y, out); err != nil {
		return b, err
	}
	if b.handle, err = l.create(fnCreateIoBinding, s.handle); err != nil {
		return b, err
	}
	return b, errors.Join(
		l.call(fnBindInput, b.handle, mem.text(in.Name), b.x),
		l.call(fnBindOutput, b.handle, mem.text(out.Name), b.y))
}

// unbind gives a binding back.
func (l *library) unbind(b binding) {
	l.free(fnReleaseIoBinding, b.handle)
	l.free(fnReleaseValue, b.x)
	l.free(fnReleaseValue, b.y)
}

// run computes what is bound, and returns when the output is written.
// One goroutine does that at a time.
func (s *session) run(binding uintptr) error {
	s.running = append(s.running[:0], s.handle, 0, binding)
	return s.library.call(fnRunWithBinding, s.running...)
}

// address is where memory outside Go's heap begins.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
