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

// libraryNames are the library's usual names.
var libraryNames = map[string][]string{
	"linux":   {"libonnxruntime.so.1", "libonnxruntime.so"},
	"android": {"libonnxruntime.so"},
	"darwin":  {"libonnxruntime.1.dylib", "libonnxruntime.dylib"},
	"windows": {"onnxruntime.dll"},
}

// library is the ONNX Runtime library of this process. The package never unloads it,
// because drivers often fail when they are unloaded.
type library struct {
	*api
	path    string
	env     uintptr
	memory  uintptr // memory info for tensors over memory of this program
	threads int
	plugins map[string]bool // registered, by path
}

var (
	loading sync.Mutex // held while the library or a plugin is loaded
	loaded  *library
)

// open loads the library, or returns the loaded one, and registers plugins.
func open(o Options) (*library, error) {
	loading.Lock()
	defer loading.Unlock()
	l, err := openOnce(cmp.Or(o.Library, os.Getenv(LibraryVariable)), max(1, o.Threads))
	if err != nil {
		return nil, err
	}
	return l, l.register(o.Plugins)
}

// openOnce returns the process's only library.
func openOnce(path string, threads int) (*library, error) {
	if l := loaded; l != nil {
		switch {
		case path != "" && path != l.path:
			return nil, fmt.Errorf("onnx: this process has already loaded %s and cannot load %s", l.path, path)
		case threads != l.threads:
			return nil, fmt.Errorf("onnx: the library already runs with %d threads in this process, not %d: use the same number", l.threads, threads)
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

// load loads the library from its path or under its usual names.
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
	return nil, fmt.Errorf("%w: tried %s; set %s to its path", ErrMissing, strings.Join(candidates, ", "), LibraryVariable)
}

// start creates the library's environment: one thread pool for all sessions, and no
// log output.
func (l *library) start(threads int) (err error) {
	var mem pinned
	defer mem.Unpin()
	options, err := l.create(fnCreateThreadingOptions)
	if err != nil {
		return err
	}
	defer l.free(fnReleaseThreadingOptions, options)
	// Spinning threads would take cores from the other part of a split matmul.
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
