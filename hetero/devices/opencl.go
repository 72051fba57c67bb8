//go:build gpu

package devices

import (
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/opencl"
)

func init() { openCL.Find = findOpenCL }

// findOpenCL offers the devices of all OpenCL drivers. Each is opened once, because
// only trying shows whether it shares memory.
func findOpenCL() (found []Found, err error) {
	list, err := opencl.List()
	if err != nil {
		return nil, err
	}
	for _, info := range list {
		options := opencl.Options{Device: fmt.Sprint(info.Index)}
		d, failed := opencl.OpenDevice(options)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", info.Name, failed))
			continue
		}
		found = append(found, Found{
			Name: fmt.Sprintf("%s-%d", openCL.Name, info.Index), Capabilities: d.Capabilities(),
			Open: func(o Options) (hetero.Device, error) {
				options.Budget = o.Budget
				return opencl.OpenDevice(options)
			},
		})
		if err := d.Close(); err != nil {
			return nil, err
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	return nil, err
}
