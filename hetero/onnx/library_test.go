//go:build npu

package onnx

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
)

// report queries the library and skips the test if there is none.
func report(t *testing.T) *Report {
	r, err := Probe(Options{})
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return r
}

func TestProbe(t *testing.T) {
	r := report(t)
	require.NotEmpty(t, r.Path)
	require.Regexp(t, `^1\.\d+`, r.Version)
	found := false
	for _, p := range r.Providers {
		t.Logf("%+v", p)
		found = found || p.Name == cpuProvider
	}
	require.True(t, found)
}

// TestWrongLibraries checks that a library that does not exist counts as missing, and
// that a library without the functions, or a second library, is an error.
func TestWrongLibraries(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.so")
	_, err := load(none)
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, none)
	r := report(t)
	_, err = Open(Options{Library: none})
	require.ErrorContains(t, err, r.Path)
	_, err = Open(Options{Threads: 5})
	require.ErrorContains(t, err, "not 5")
}

func TestMissingProviders(t *testing.T) {
	report(t)
	_, err := Open(Options{Provider: "Abacus"})
	require.ErrorContains(t, err, "AbacusExecutionProvider")
	path := filepath.Join(t.TempDir(), "abacus.so")
	_, err = Open(Options{Provider: "Abacus", Plugins: []string{path}})
	require.ErrorContains(t, err, path)
}

// TestAppendByHardware checks that devices with a hardware entry are appended by it.
// On this machine the CPU is the only one.
func TestAppendByHardware(t *testing.T) {
	report(t)
	if loaded.version < versionPlugins {
		t.Skipf("library %s does not list hardware", loaded.release)
	}
	devices, err := loaded.devices()
	require.NoError(t, err)
	require.NotEmpty(t, devices)
	require.Equal(t, Provider{Name: cpuProvider, Hardware: "CPU", Vendor: "Microsoft"}, devices[0].Provider)
	options, err := loaded.create(fnCreateSessionOptions)
	require.NoError(t, err)
	defer loaded.free(fnReleaseSessionOptions, options)
	require.NoError(t, loaded.appendHardware(options, []uintptr{devices[0].handle}, nil, nil))
}

func TestKindsOfProviders(t *testing.T) {
	for name, want := range map[string]hetero.Kind{
		"": hetero.CPU, "CPU": hetero.CPU, "QNN": hetero.NPU, "QNNExecutionProvider": hetero.NPU, "CUDA": hetero.GPU,
	} {
		require.Equal(t, want, kindOf(fullName(name)), name)
	}
}
