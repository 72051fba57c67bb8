//go:build gpu

package devices

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/opencl"
)

func init() { openCL.Find = findOpenCL }

// findOpenCL returns the devices of all OpenCL drivers.
func findOpenCL() ([]Found, error) {
	list, failed := opencl.List()
	found, err := openable(list, func(o opencl.Options) (hetero.Device, error) { return opencl.OpenDevice(o) })
	return found, errors.Join(failed, err)
}

// openable opens and closes each device, because Open tests whether the device shares
// memory. The error names the devices that cannot be opened.
func openable(list []opencl.Info, open func(opencl.Options) (hetero.Device, error)) (found []Found, failed error) {
	for _, info := range list {
		options := opencl.Options{Device: fmt.Sprint(info.Index)}
		d, err := open(options)
		var capabilities hetero.Capabilities
		if err == nil {
			capabilities = d.Capabilities()
			err = d.Close()
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", info.Name, err))
			continue
		}
		found = append(found, Found{
			Name: info.Label(), Capabilities: capabilities,
			Open: func(o Options) (hetero.Device, error) {
				mine := options
				mine.Budget, mine.Memory = o.Budget, o.Memory
				return open(mine)
			},
		})
	}
	return found, failed
}
