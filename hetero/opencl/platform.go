package opencl

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// Info describes a device as its driver reports it.
type Info struct {
	Index         int    `json:"index"` // in List; accepted by Open
	Platform      string `json:"platform"`
	Name          string `json:"name"`
	Driver        string `json:"driver"`
	Version       string `json:"version"`
	Kind          string `json:"kind"` // GPU, CPU or accelerator
	ComputeUnits  int    `json:"compute_units"`
	Memory        int64  `json:"memory_bytes"`
	MaxAllocation int64  `json:"max_allocation_bytes"`
	LocalMemory   int64  `json:"local_memory_bytes"` // of a work-group
	MaxGroup      int    `json:"max_group"`          // work items of a work-group
	HostUnified   bool   `json:"host_unified"`       // the driver reports one memory for host and device
	ImageUnits    int64  `json:"image_units"`        // largest image over a buffer, in units of 128 bits; 0: no images
	Half          bool   `json:"fp16"`               // half precision arithmetic, rounded to nearest
	Tensors       bool   `json:"tensors"`            // tf32 tensor cores
	Dot           Dot    `json:"dot"`                // dot product instruction for codes

	platform, device uintptr
	nvidia           bool
	uuid             [16]byte // zero if the device cannot import memory
}

// List returns the devices of all drivers: GPUs first, CPUs last. The error wraps
// ErrNotBuilt or ErrNoDriver if no driver is available. If List returns both devices
// and an error, the error describes the drivers that failed.
func List() ([]Info, error) {
	if err := load(); err != nil {
		return nil, err
	}
	platforms, err := platformIDs()
	if err != nil {
		return nil, err
	}
	var list []Info
	var failed error
	for _, kind := range []uint64{kindGPU, kindAccelerator, kindCPU} {
		for _, p := range platforms {
			devices, err := deviceIDs(p, kind)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: devices of kind %s: %w", nameOf(p), kindNames[kind], err))
			}
			for _, d := range devices {
				info, err := describe(p, d, kind)
				if err != nil {
					failed = errors.Join(failed, fmt.Errorf("%s: device of kind %s: %w", nameOf(p), kindNames[kind], err))
					continue
				}
				info.Index = len(list)
				list = append(list, info)
			}
		}
	}
	if len(list) == 0 && failed == nil {
		var names []string
		for _, p := range platforms {
			names = append(names, nameOf(p))
		}
		return nil, noDevice(names)
	}
	return list, failed
}

// noDevice returns the error for drivers without devices. Mesa lists only GPUs whose
// driver the user has enabled.
func noDevice(names []string) error {
	err := fmt.Errorf("%w: a library is installed, but it lists no device", ErrNoDriver)
	if slices.Contains(names, "rusticl") {
		err = fmt.Errorf("%w; Mesa's rusticl lists only GPUs whose driver is in RUSTICL_ENABLE: radeonsi for AMD, iris for Intel", err)
	}
	return err
}

// nameOf returns a platform's name, for errors.
func nameOf(platform uintptr) string {
	q := query{entry: clGetPlatformInfo, object: platform}
	if name := q.text(platformName); name != "" {
		return name
	}
	return "unnamed driver"
}

func platformIDs() ([]uintptr, error) {
	var count uint32
	err := status(clGetPlatformIDs, 0, 0, uintptr(unsafe.Pointer(&count)))
	if isCode(err, platformsNotFound) || err == nil && count == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ids := make([]uintptr, count)
	return ids, status(clGetPlatformIDs, uintptr(count), uintptr(unsafe.Pointer(&ids[0])), 0)
}

func deviceIDs(platform uintptr, kind uint64) ([]uintptr, error) {
	var count uint32
	err := status(clGetDeviceIDs, platform, uintptr(kind), 0, 0, uintptr(unsafe.Pointer(&count)))
	if isCode(err, deviceNotFound) || err == nil && count == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ids := make([]uintptr, count)
	if err := status(clGetDeviceIDs, platform, uintptr(kind), uintptr(count), uintptr(unsafe.Pointer(&ids[0])), 0); err != nil {
		return nil, err
	}
	return ids, nil
}

func isCode(err error, code int32) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Code == code
}

var kindNames = map[uint64]string{kindGPU: "GPU", kindAccelerator: "accelerator", kindCPU: "CPU"}

// describe queries the properties of a device.
func describe(platform, device uintptr, kind uint64) (Info, error) {
	q := query{entry: clGetDeviceInfo, object: device}
	info := Info{
		Kind: kindNames[kind], platform: platform, device: device,
		Name: q.text(deviceName), Driver: q.text(deviceDriver), Version: q.text(deviceVersion),
		ComputeUnits: int(q.number(deviceComputeUnits, 4)), MaxGroup: int(q.number(deviceMaxGroup, 8)),
		Memory: q.number(deviceMemory, 8), MaxAllocation: q.number(deviceMaxAllocation, 8), LocalMemory: q.number(deviceLocalMemory, 8),
		HostUnified: q.number(deviceHostUnified, 4) != 0,
	}
	if q.number(deviceImages, 4) != 0 {
		info.ImageUnits = q.number(deviceImageUnits, 8)
	}
	extensions := strings.Fields(q.text(deviceExtensions))
	info.nvidia = slices.Contains(extensions, nvidiaQuery)
	info.Half, info.Tensors, info.Dot = hasHalf(&q, extensions), hasTensors(&q, extensions), dotOf(&q, info.Version, extensions)
	if slices.Contains(extensions, "cl_khr_device_uuid") && slices.Contains(extensions, "cl_khr_external_memory_opaque_fd") {
		q.bytes(deviceUUID, info.uuid[:])
	}
	p := query{entry: clGetPlatformInfo, object: platform}
	info.Platform = p.text(platformName)
	return info, errors.Join(q.err, p.err)
}

// query reads properties of one object and keeps the first error.
type query struct {
	entry  entry
	object uintptr
	err    error
}

// number reads an integer of the given size.
func (q *query) number(what uintptr, bytes uintptr) int64 {
	var value int64
	if err := status(q.entry, q.object, what, bytes, uintptr(unsafe.Pointer(&value)), 0); err != nil && q.err == nil {
		q.err = err
	}
	return value
}

// bytes fills to with a property.
func (q *query) bytes(what uintptr, to []byte) {
	q.err = firstError(q.err, status(q.entry, q.object, what, uintptr(len(to)), uintptr(unsafe.Pointer(&to[0])), 0))
}

func (q *query) text(what uintptr) string {
	var size uintptr
	err := status(q.entry, q.object, what, 0, 0, uintptr(unsafe.Pointer(&size)))
	if err != nil || size == 0 {
		q.err = firstError(q.err, err)
		return ""
	}
	text := make([]byte, size)
	q.err = firstError(q.err, status(q.entry, q.object, what, size, uintptr(unsafe.Pointer(&text[0])), 0))
	return strings.TrimSpace(strings.TrimRight(string(text), "\x00"))
}

// Label returns the device's name in lists of devices of several drivers.
func (i *Info) Label() string { return fmt.Sprintf("opencl-%d", i.Index) }

// selectDevice returns the device with a label or index, or the first whose name
// contains name; "" selects the first.
func selectDevice(list []Info, name string) (Info, error) {
	for _, info := range list {
		if name == "" || name == info.Label() || name == strconv.Itoa(info.Index) {
			return info, nil
		}
	}
	for _, info := range list {
		if strings.Contains(strings.ToLower(info.Platform+" "+info.Name), strings.ToLower(name)) {
			return info, nil
		}
	}
	var names []string
	for _, info := range list {
		names = append(names, fmt.Sprintf("%s: %s", info.Label(), info.Name))
	}
	return Info{}, fmt.Errorf("%w: %q; available: %s", ErrNoDevice, name, strings.Join(names, ", "))
}
