//go:build npu

package devices

import (
	"fmt"
	"strings"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/onnx"
)

func init() { onnxRuntime.Find = findONNX }

// findONNX returns all execution providers that the library accepts on this
// machine. The CPU provider is always among them, so that graphs can be tested
// without an NPU.
func findONNX() ([]Found, error) {
	report, err := onnx.Probe(onnx.Options{})
	if err != nil {
		return nil, err
	}
	var found []Found
	known := map[string]bool{}
	for _, p := range report.Providers {
		if p.Refused != "" || known[p.Name] {
			continue // one device of a provider uses all its hardware
		}
		known[p.Name] = true
		options := onnx.Options{Provider: p.Name}
		found = append(found, Found{
			Name:         onnxRuntime.Name + "-" + strings.ToLower(strings.TrimSuffix(p.Name, "ExecutionProvider")),
			Capabilities: report.Capabilities(options),
			Open: func(o Options) (hetero.Device, error) {
				mine := options
				mine.Budget, mine.Memory = o.Budget, o.Memory
				return onnx.Open(mine)
			},
		})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: no execution provider is usable", report.Path)
	}
	return found, nil
}
