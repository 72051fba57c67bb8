package main

import (
	"strings"

	"github.com/llmrun/llmrun/internal/cli"
)

// isGPU reports whether a value of --device names a GPU that computes whole layers.
func isGPU(device string) bool { return device == "gpu" || strings.HasPrefix(device, "gpu:") }

// isSplit reports whether a value of --device splits matmuls between the CPU and another device.
func isSplit(device string) bool { return strings.HasPrefix(device, "cpu+") }

// checkDevice refuses a --device that does not exist, and flags that need another one.
func (m *modelFlags) checkDevice() error {
	gpu, split := isGPU(m.device), isSplit(m.device)
	switch {
	case m.device != "" && m.device != "cpu" && !gpu && !split:
		return cli.Usagef("--device: must be cpu, gpu, gpu: and part of a device's name, or cpu+gpu, cpu+npu or cpu+ and a device's name, not %q", m.device)
	case m.layers != 0 && !gpu:
		return cli.Usagef("--gpu-layers needs --device gpu")
	case m.deviceQuota != 0 && !split:
		return cli.Usagef("--device-share needs a device beside the CPU, such as --device cpu+gpu")
	case m.deviceMemory != 0 && !gpu && !split:
		return cli.Usagef("--device-memory needs a device, such as --device gpu or --device cpu+npu")
	}
	return m.checkGPU()
}

// checkGPU refuses flags that a GPU does not support: it keeps weights in its own memory, and
// keys and values in k8v8.
func (m *modelFlags) checkGPU() error {
	if !isGPU(m.device) && !isSplit(m.device) {
		return nil
	}
	w8a8 := m.w8a8 != nil && m.w8a8.on
	refused := []struct {
		given bool
		flag  string
	}{
		{m.kvRAM != 0, "--kv-ram"},
		{m.pin != "" && m.pin != "auto", "--pin " + m.pin},
		{m.pressure, "--pressure"},
		{m.exact, "--exact"},
		{isGPU(m.device) && m.kv != "" && m.kv != "k8v8", "--kv " + m.kv},
		{isGPU(m.device) && m.kvSelect != "" && m.kvSelect != "exact", "--kv-select " + m.kvSelect},
		{isGPU(m.device) && w8a8, "--w8a8"},
	}
	for _, r := range refused {
		if r.given {
			return cli.Usagef("%s does not go with --device %s: leave it out", r.flag, m.device)
		}
	}
	if m.scoring && !m.rounded && !w8a8 {
		return cli.Usagef("--device %s needs --rounded: devices quantize activations", m.device)
	}
	return nil
}
