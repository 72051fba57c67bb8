//go:build npu

package onnx

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The library exports one table of functions in a fixed order; versions append to
// it. These are the indices of the functions in use.
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
	fnRegisterProviderLibrary   = 301 // since version 22, like those below
	fnGetDevices                = 303
	fnAppendDevices             = 304
	fnHardwareType              = 307
	fnDeviceProvider            = 312
	fnDeviceVendor              = 313
	fnDeviceHardware            = 316
)

// Versions of the table: the oldest and newest supported, and the first with
// plugins.
const (
	versionOldest  = 16
	versionPlugins = 22
	versionNewest  = 23
)

// Arguments of the functions.
const (
	loggingFatal    = 4
	optimizeNothing = 0
	optimizeAll     = 99
	allocatorDevice = 0
	memoryDefault   = 0
)

// api is the function table of a loaded library.
type api struct {
	table   uintptr
	version int
	release string // of the library, such as 1.30.0
}

// newAPI requests the newest table that both sides support.
func newAPI(getBase uintptr) (*api, error) {
	base, _, _ := purego.SyscallN(getBase)
	if base == 0 {
		return nil, fmt.Errorf("onnx: the library exports no function table")
	}
	getAPI, getVersion := word(base, 0), word(base, 1)
	text, _, _ := purego.SyscallN(getVersion)
	a := &api{release: goString(text)}
	var major, minor int
	if _, err := fmt.Sscanf(a.release, "%d.%d", &major, &minor); err != nil || major != 1 {
		return nil, fmt.Errorf("onnx: library version %q is unsupported; 1.%d or later is needed", a.release, versionOldest)
	}
	// Requesting a newer version makes the library print an error.
	a.version = min(minor, versionNewest)
	if a.version < versionOldest {
		return nil, fmt.Errorf("onnx: library version %s is unsupported; 1.%d or later is needed", a.release, versionOldest)
	}
	if a.table, _, _ = purego.SyscallN(getAPI, uintptr(a.version)); a.table == 0 {
		return nil, fmt.Errorf("onnx: library %s does not support API version %d", a.release, a.version)
	}
	return a, nil
}

// call calls a function that returns a status, and converts it to an error.
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

// free calls a function that releases an object; 0 is ignored.
func (a *api) free(fn int, object uintptr) {
	if object != 0 {
		purego.SyscallN(word(a.table, fn), object)
	}
}

// create calls a function whose last argument receives a new object.
func (a *api) create(fn int, args ...uintptr) (object uintptr, err error) {
	var mem pinned
	defer mem.Unpin()
	out := new(uintptr)
	mem.Pin(out)
	err = a.call(fn, append(args, uintptr(unsafe.Pointer(out)))...)
	return *out, err
}

// word returns the i-th word of a table of the library.
func word(table uintptr, i int) uintptr {
	return *(*uintptr)(unsafe.Add(foreign(table), uintptr(i)*unsafe.Sizeof(table)))
}

// foreign returns a pointer to memory outside Go's heap.
func foreign(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// goString copies a C string.
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

// pinned holds Go memory in place while the library accesses it, until Unpin.
type pinned struct{ runtime.Pinner }

// text returns the address of a NUL-terminated copy.
func (p *pinned) text(s string) uintptr { return uintptr(p.cString(s)) }

func (p *pinned) cString(s string) unsafe.Pointer {
	text := append([]byte(s), 0)
	p.Pin(&text[0])
	return unsafe.Pointer(&text[0])
}

// texts returns the address of a list of C strings.
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

// pin returns the address of a slice's elements, 0 for an empty slice.
func pin[T any](p *pinned, list []T) uintptr {
	if len(list) == 0 {
		return 0
	}
	p.Pin(&list[0])
	return uintptr(unsafe.Pointer(&list[0]))
}
