//go:build npu

package onnx

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
)

// libraryNames are those of the library where nobody says which.
var libraryNames = map[string][]string{
	"linux":   {"libonnxruntime.so.1", "libonnxruntime.so"},
	"android": {"libonnxruntime.so"},
	"darwin":  {"libonnxruntime.1.dylib", "libonnxruntime.dylib"},
	"windows": {"onnxruntime.dll"},
}

// library is the one library of this process. It is loaded once and stays:
// drivers do not take well to being unloaded.
type library struct {
	*api
	path    string
	env     uintptr
	memory  uintptr // what tensors of ours are made with
	threads int
	plugins map[string]bool // registered, by path
}

var (
	loading sync.Mutex // held while the library or a plugin is loaded
	loaded  *library
)

// open loads the library, or returns the one that is loaded, with all plugins.
func open(o Options) (*library, error) {
	loading.Lock()
	defer loading.Unlock()
	l, err := openOnce(cmp.Or(o.Library, os.Getenv(LibraryVariable)), max(1, o.Threads))
	if err != nil {
		return nil, err
	}
	return l, l.register(o.Plugins)
}

// openOnce returns the one library of this process.
func openOnce(path string, threads int) (*library, error) {
	if l := loaded; l != nil {
		switch {
		case path != "" && path != l.path:
			return nil, fmt.Errorf("onnx: this process has loaded %s and cannot load %s as well", l.path, path)
		case threads != l.threads:
			return nil, fmt.Errorf("onnx: the library has one set of threads in a process, which is of %d: use as many, not %d", l.threads, threads)
		}
		return l, nil
	}
	l, err := load(path)
	if err != nil {
		return nil, err
	}
	if err := l.start(threads); err != nil {
		return nil, err
	}
	loaded = l
	return l, nil
}

// load finds the library: where it was said to be, or under its usual names.
func load(path string) (*library, error) {
	candidates := libraryNames[runtime.GOOS]
	if path != "" {
		candidates = []string{path}
	}
	for _, name := range candidates {
		getBase, err := symbol(name, "OrtGetApiBase")
		if err != nil {
			if path != "" {
				return nil, fmt.Errorf("%w: %w", ErrMissing, err)
			}
			continue
		}
		a, err := newAPI(getBase)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return &library{api: a, path: name, plugins: map[string]bool{}}, nil
	}
	return nil, fmt.Errorf("%w: tried %s; %s may name it", ErrMissing, strings.Join(candidates, ", "), LibraryVariable)
}

// start makes the library's state: one set of threads for all sessions, and no
// messages but errors that are returned.
func (l *library) start(threads int) (err error) {
	var mem pinned
	defer mem.Unpin()
	options, err := l.create(fnCreateThreadingOptions)
	if err != nil {
		return err
	}
	defer l.free(fnReleaseThreadingOptions, options)
	// Who spins takes the time of the cores that the rest of a product needs.
	err = errors.Join(
		l.call(fnSetGlobalIntraOpThreads, options, uintptr(threads)),
		l.call(fnSetGlobalInterOpThreads, options, 1),
		l.call(fnSetGlobalSpinControl, options, 0))
	if err != nil {
		return err
	}
	l.threads = threads
	if l.env, err = l.create(fnCreateEnvWithThreadPools, loggingFatal, mem.text("llmrun"), options); err != nil {
		return err
	}
	if err := l.call(fnDisableTelemetryEvents, l.env); err != nil {
		return err
	}
	l.memory, err = l.create(fnCreateCPUMemoryInfo, allocatorDevice, memoryDefault)
	return err
}
