//go:build npu

package onnx

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"github.com/llmrun/llmrun/hetero"
)

// providerSuffix ends the library's names of providers.
const providerSuffix = "ExecutionProvider"

// cpuProvider is part of every library.
const cpuProvider = "CPU" + providerSuffix

// fullName returns a provider's name in the library's spelling.
func fullName(name string) string {
	if name == "" {
		return cpuProvider
	}
	return strings.TrimSuffix(name, providerSuffix) + providerSuffix
}

// kinds are the hardware of known providers; all others are for NPUs.
var kinds = map[string]hetero.Kind{
	cpuProvider: hetero.CPU, "XNNPACK" + providerSuffix: hetero.CPU, "Dnnl" + providerSuffix: hetero.CPU,
	"CUDA" + providerSuffix: hetero.GPU, "Tensorrt" + providerSuffix: hetero.GPU, "NvTensorRTRTX" + providerSuffix: hetero.GPU,
	"WebGpu" + providerSuffix: hetero.GPU, "Dml" + providerSuffix: hetero.GPU, "MIGraphX" + providerSuffix: hetero.GPU,
}

// kindOf returns a provider's hardware.
func kindOf(provider string) hetero.Kind {
	if kind, known := kinds[provider]; known {
		return kind
	}
	return hetero.NPU
}

// Probe loads the library and lists its providers. The error wraps [ErrMissing] if
// there is no library.
func Probe(o Options) (*Report, error) {
	l, err := open(o)
	if err != nil {
		return nil, err
	}
	r := &Report{Path: l.path, Version: l.release}
	devices, err := l.devices()
	if err != nil {
		return nil, err
	}
	for _, d := range devices {
		r.Providers = append(r.Providers, d.Provider)
	}
	builtIn, err := l.builtIn()
	if err != nil {
		return nil, err
	}
	for _, name := range builtIn {
		if slices.ContainsFunc(devices, func(d device) bool { return d.Name == name }) {
			continue
		}
		p := Provider{Name: name}
		if kindOf(name) == hetero.GPU {
			// Some GPU providers start their driver, which a list of NPUs must not do.
			p.Refused = "a GPU provider; tested only when selected by name"
		} else if err := l.tryProvider(name, o.Settings); err != nil {
			p.Refused, _, _ = strings.Cut(err.Error(), ". ") // the rest is about other providers
		}
		r.Providers = append(r.Providers, p)
	}
	return r, nil
}

// tryProvider tests whether the provider accepts sessions. It does not test which
// operations the provider supports.
func (l *library) tryProvider(provider string, settings map[string]string) error {
	options, err := l.create(fnCreateSessionOptions)
	if err != nil {
		return err
	}
	defer l.free(fnReleaseSessionOptions, options)
	return l.appendProvider(options, provider, settings)
}

// builtIn returns the names of the library's own providers. Their drivers may be
// missing.
func (l *library) builtIn() ([]string, error) {
	var mem pinned
	defer mem.Unpin()
	var out struct {
		list  uintptr
		count int32
	}
	at := pin(&mem, unsafe.Slice(&out, 1))
	if err := l.call(fnGetAvailableProviders, at, at+unsafe.Offsetof(out.count)); err != nil {
		return nil, err
	}
	var list []string
	for i := range int(out.count) {
		list = append(list, goString(word(out.list, i)))
	}
	return list, l.call(fnReleaseAvailableProviders, out.list, uintptr(out.count))
}

// register loads plugins. The caller holds loading.
func (l *library) register(plugins []string) error {
	if plugins == nil {
		plugins = filepath.SplitList(os.Getenv(PluginsVariable))
	}
	for _, path := range plugins {
		if l.plugins[path] {
			continue
		}
		if l.version < versionPlugins {
			return fmt.Errorf("onnx: library %s does not support plugins; 1.%d or later does", l.release, versionPlugins)
		}
		var mem pinned
		// Any name that no other plugin uses.
		err := l.call(fnRegisterProviderLibrary, l.env, mem.text(path), mem.path(path))
		mem.Unpin()
		if err != nil {
			return fmt.Errorf("plugin %s: %w", path, err)
		}
		l.plugins[path] = true
	}
	return nil
}

// device is detected hardware with its provider.
type device struct {
	Provider
	handle uintptr
}

// hardware names the library's kinds of hardware.
var hardware = [...]string{"CPU", "GPU", "NPU"}

// devices returns the hardware that the library and its plugins detected; none for
// libraries without plugin support.
func (l *library) devices() ([]device, error) {
	if l.version < versionPlugins {
		return nil, nil
	}
	var mem pinned
	defer mem.Unpin()
	out := make([]uintptr, 2) // the list, owned by the library, and its length
	at := pin(&mem, out)
	if err := l.call(fnGetDevices, l.env, at, at+unsafe.Sizeof(at)); err != nil {
		return nil, err
	}
	list := make([]device, out[1])
	for i := range list {
		d := &list[i]
		d.handle = word(out[0], i)
		d.Name = goString(l.get(fnDeviceProvider, d.handle))
		d.Vendor = goString(l.get(fnDeviceVendor, d.handle))
		if kind := uint32(l.get(fnHardwareType, l.get(fnDeviceHardware, d.handle))); int(kind) < len(hardware) {
			d.Hardware = hardware[kind]
		}
	}
	return list, nil
}

// appendProvider makes a session use a provider.
func (l *library) appendProvider(options uintptr, provider string, settings map[string]string) error {
	if provider == cpuProvider {
		return nil
	}
	keys := slices.Sorted(maps.Keys(settings))
	values := make([]string, len(keys))
	for i, k := range keys {
		values[i] = settings[k]
	}
	devices, err := l.devices()
	if err != nil {
		return err
	}
	var handles []uintptr
	for _, d := range devices {
		if d.Name == provider {
			handles = append(handles, d.handle)
		}
	}
	if len(handles) > 0 {
		return l.appendHardware(options, handles, keys, values)
	}
	var mem pinned
	defer mem.Unpin()
	name := provider
	if l.version < versionPlugins {
		name = strings.TrimSuffix(provider, providerSuffix) // the only form before plugins
	}
	return l.call(fnAppendProvider, options, mem.text(name), mem.texts(keys), mem.texts(values), uintptr(len(keys)))
}

// appendHardware is appendProvider for detected hardware.
func (l *library) appendHardware(options uintptr, handles []uintptr, keys, values []string) error {
	var mem pinned
	defer mem.Unpin()
	return l.call(fnAppendDevices, options, l.env,
		pin(&mem, handles), uintptr(len(handles)), mem.texts(keys), mem.texts(values), uintptr(len(keys)))
}
