//go:build npu

package onnx

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The library gives out one table of functions, whose order never changes:
// versions add at its end. These are the places of those that are used.
const (
	fnGetErrorMessage           = 2
	fnDisableTelemetryEvents    = 6
	fnCreateSessionFromArray    = 8
	fnCreateSessionOptions      = 10
	fnSetOptimizedModelFilePath = 11
	fnSetGraphOptimizationLevel = 23
	fnCreateTensorWithData      = 49
	fnCreateCPUMemoryInfo       = 69
	fnReleaseStatus             = 93
	fnReleaseMemoryInfo         = 94
	fnReleaseSession            = 95
	fnReleaseValue              = 96
	fnReleaseSessionOptions     = 100
	fnCreateEnvWithThreadPools  = 119
	fnDisablePerSessionThreads  = 120
	fnCreateThreadingOptions    = 121
	fnReleaseThreadingOptions   = 122
	fnGetAvailableProviders     = 125
	fnReleaseAvailableProviders = 126
	fnAddSessionConfigEntry     = 130
	fnRunWithBinding            = 133
	fnCreateIoBinding           = 134
	fnReleaseIoBinding          = 135
	fnBindInput                 = 136
	fnBindOutput                = 137
	fnSetGlobalIntraOpThreads   = 147
	fnSetGlobalInterOpThreads   = 148
	fnSetGlobalSpinControl      = 149
	fnAddExternalInitializers   = 210
	fnAppendProvider            = 216
	fnRegisterProviderLibrary   = 301 // since version 22, as those below
	fnGetDevices                = 303
	fnAppendDevices             = 304
	fnHardwareType              = 307
	fnDeviceProvider            = 312
	fnDeviceVendor              = 313
	fnDeviceHardware            = 316
)

// Versions of the table: the oldest and the newest that are asked for, and the one
// that brought plugins.
const (
	versionOldest  = 16
	versionPlugins = 22
	versionNewest  = 23
)

// Arguments of its functions.
const (
	loggingFatal    = 4
	optimizeNothing = 0
	optimizeAll     = 99
	allocatorDevice = 0
	memoryDefault   = 0
)

// api is the table of functions of a loaded library.
type api struct {
	table   uintptr
	version int
	release string // of the library, such as 1.30.0
}

// newAPI asks a library for the newest table that both sides know.
func newAPI(getBase uintptr) (*api, error) {
	base, _, _ := purego.SyscallN(getBase)
	if base == 0 {
		return nil, fmt.Errorf("onnx: the library has no functions to give")
	}
	getAPI, getVersion := word(base, 0), word(base, 1)
	text, _, _ := purego.SyscallN(getVersion)
	a := &api{release: goString(text)}
	var major, minor int
	if _, err := fmt.Sscanf(a.release, "%d.%d", &major, &minor); err != nil || major != 1 {
		return nil, fmt.Errorf("onnx: a library of version %q; 1.%d or later is needed", a.release, versionOldest)
	}
	// Asking for more than there is makes the library complain on standard error.
	a.version = min(minor, versionNewest)
	if a.version < versionOldest {
		return nil, fmt.Errorf("onnx: a library of version %s; 1.%d or later is needed", a.release, versionOldest)
	}
	if a.table, _, _ = purego.SyscallN(getAPI, uintptr(a.version)); a.table == 0 {
		return nil, fmt.Errorf("onnx: library %s does not have version %d of its functions", a.release, a.version)
	}
	return a, nil
}

// call calls a function that returns a status, and returns what that says.
func (a *api) call(fn int, args ...uintptr) error {
	status, _, _ := purego.SyscallN(word(a.table, fn), args...)
	if status == 0 {
		return nil
	}
	text, _, _ := purego.SyscallN(word(a.table, fnGetErrorMessage), status)
	err := fmt.Errorf("onnx: %s", goString(text))
	a.free(fnReleaseStatus, status)
	return err
}

// get calls a function that returns a value.
func (a *api) get(fn int, args ...uintptr) uintptr {
	value, _, _ := purego.SyscallN(word(a.table, fn), args...)
	return value
}

// free calls a function that gives an object back. There may be none.
func (a *api) free(fn int, object uintptr) {
	if object != 0 {
		purego.SyscallN(word(a.table, fn), object)
	}
}

// create calls a function whose last argument is where it puts a new object.
func (a *api) create(fn int, args ...uintptr) (object uintptr, err error) {
	var mem pinned
	defer mem.Unpin()
	out := new(uintptr)
	mem.Pin(out)
	err = a.call(fn, append(args, uintptr(unsafe.Pointer(out)))...)
	return *out, err
}

// word returns the i-th address of a table of the library's.
func word(table uintptr, i int) uintptr {
	return *(*uintptr)(unsafe.Add(foreign(table), uintptr(i)*unsafe.Sizeof(table)))
}

// foreign returns a pointer to memory that is not Go's.
func foreign(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// goString copies a string of the library's.
func goString(address uintptr) string {
	if address == 0 {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(foreign(address), n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(foreign(address)), n))
}

// pinned is Go memory that a call of the library reads or writes: it stays where
// it is until Unpin.
type pinned struct{ runtime.Pinner }

// text returns the address of a copy that ends as C's strings do.
func (p *pinned) text(s string) uintptr { return uintptr(p.cString(s)) }

func (p *pinned) cString(s string) unsafe.Pointer {
	text := append([]byte(s), 0)
	p.Pin(&text[0])
	return unsafe.Pointer(&text[0])
}

// texts returns the address of a list of strings.
func (p *pinned) texts(list []string) uintptr {
	if len(list) == 0 {
		return 0
	}
	pointers := make([]unsafe.Pointer, len(list))
	for i, s := range list {
		pointers[i] = p.cString(s)
	}
	p.Pin(&pointers[0])
	return uintptr(unsafe.Pointer(&pointers[0]))
}

// pin returns the address of a list of numbers, which may be empty.
func pin[T any](p *pinned, list []T) uintptr {
	if len(list) == 0 {
		return 0
	}
	p.Pin(&list[0])
	return uintptr(unsafe.Pointer(&list[0]))
}
