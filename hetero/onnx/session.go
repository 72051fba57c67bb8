//go:build npu

package onnx

import (
	"errors"
	"unsafe"

	"github.com/llmrun/llmrun/hetero/onnx/graph"
)

// session is a graph prepared by the provider.
type session struct {
	library *library
	handle  uintptr
	values  []uintptr // weights, as tensors over memory of this program
	running []uintptr // arguments of run, reused to avoid allocations
}

// sessionOptions are the options of a session.
type sessionOptions struct {
	provider string
	settings map[string]string
	saveTo   string // file for the prepared graph; "": none
	// prepared: the provider prepared the graph before, so it contains its weights
	// and is optimized.
	prepared bool
	inPlace  bool // see Options
	// narrowSums: the CPU sums pairs of 8-bit products in 16 bits, which may
	// overflow.
	narrowSums bool
}

// newSession prepares a graph with weights that stay in place.
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

// configure sets the options of a session.
func (l *library) configure(options uintptr, o sessionOptions) error {
	level := uintptr(optimizeAll)
	if o.prepared {
		level = optimizeNothing
	}
	err := errors.Join(
		l.call(fnDisablePerSessionThreads, options),
		l.call(fnSetGraphOptimizationLevel, options, level),
		// Unsupported operations must be errors. By default the library runs them
		// on the CPU silently.
		l.config(options, "session.disable_cpu_ep_fallback", flag(o.provider != cpuProvider)),
		l.config(options, "session.disable_prepacking", flag(o.inPlace)),
		l.config(options, "session.x64quantprecision", flag(o.narrowSums)), // slower, but exact
		l.appendProvider(options, o.provider, o.settings))
	if err == nil && o.saveTo != "" {
		err = l.save(options, o)
	}
	return err
}

// save makes the library write the prepared graph to a file: the optimized model
// for the CPU, the compiled graph for others.
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

// config sets a named option.
func (l *library) config(options uintptr, key, value string) error {
	var mem pinned
	defer mem.Unpin()
	return l.call(fnAddSessionConfigEntry, options, mem.text(key), mem.text(value))
}

// flag returns the library's spelling of a bool.
func flag(yes bool) string {
	if yes {
		return "1"
	}
	return "0"
}

// addWeights passes the graph's external weights to the session.
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

// tensor creates a tensor over memory outside Go's heap, which must outlive it.
func (l *library) tensor(data uintptr, t graph.Tensor) (uintptr, error) {
	var mem pinned
	defer mem.Unpin()
	return l.create(fnCreateTensorWithData, l.memory, data, uintptr(t.Size()), pin(&mem, t.Dims), uintptr(len(t.Dims)), uintptr(t.Element))
}

// close releases the session. It must not be running.
func (s *session) close() {
	s.library.free(fnReleaseSession, s.handle)
	for _, v := range s.values {
		s.library.free(fnReleaseValue, v)
	}
}

// binding is a session with fixed operands.
type binding struct {
	handle   uintptr
	x, y     uintptr // tensors
	xAt, yAt uintptr // their addresses
}

// bind makes a session access memory outside Go's heap.
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

// unbind releases a binding.
func (l *library) unbind(b binding) {
	l.free(fnReleaseIoBinding, b.handle)
	l.free(fnReleaseValue, b.x)
	l.free(fnReleaseValue, b.y)
}

// run computes a bound matmul and returns when the output is written. It must not
// run concurrently.
func (s *session) run(binding uintptr) error {
	s.running = append(s.running[:0], s.handle, 0, binding)
	return s.library.call(fnRunWithBinding, s.running...)
}

// address returns the address of memory outside Go's heap.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
