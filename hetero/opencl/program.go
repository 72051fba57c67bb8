package opencl

import (
	"embed"
	"fmt"
	"strings"
	"unsafe"
)

//go:embed kernels/*.cl
var sources embed.FS

// Kernel is a function of a program with its arguments, which stay set between
// launches.
type Kernel struct {
	context *Context
	name    string
	handle  uintptr
	// unrecordable is why the kernel cannot be recorded. Recordable kernels have
	// their current arguments and, unless recordings are emulated, their CUDA
	// function.
	unrecordable error
	arguments    []argument
	function     uintptr
}

// Kernel creates a kernel from an embedded source file, built with options such as
// -DFORMAT=1. Programs are built once; each kernel has its own arguments.
func (c *Context) Kernel(file, options, name string) (*Kernel, error) {
	program, err := c.program(file, options)
	if err != nil {
		return nil, err
	}
	text := append([]byte(name), 0)
	handle := call(functions[clCreateKernel], program, uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&c.code)))
	if err := c.created(clCreateKernel); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	k := &Kernel{context: c, name: name, handle: handle}
	k.unrecordable = k.prepareRecording(file, program)
	return k, nil
}

// includes lists the files that a source file begins with.
var includes = map[string][]string{
	"probe.cl":  {"codes.cl"},
	"matvec.cl": {"common.cl", "codes.cl", "weights.cl", "input.cl"},
	"matmul.cl": {"common.cl", "codes.cl", "weights.cl", "tile.cl"},
	"tensor.cl": {"common.cl", "codes.cl", "weights.cl", "tile.cl"},
	"layer.cl":  {"common.cl", "kv.cl"},
	"attend.cl": {"common.cl", "kv.cl"},
}

// program builds a source file, or returns the earlier build.
func (c *Context) program(file, options string) (uintptr, error) {
	options = c.Info.Dot.options() + c.graphOptions(file) + " " + options
	key := file + " " + options
	if p, ok := c.programs[key]; ok {
		return p, nil
	}
	var source strings.Builder
	for _, name := range append(includes[file], file) {
		text, err := sources.ReadFile("kernels/" + name)
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(&source, "#line 1 \"%s\"\n%s\n", name, text)
	}
	text := append([]byte(source.String()), 0)
	lines := []*byte{&text[0]}
	p := call(functions[clCreateProgramWithSource], c.context, 1, uintptr(unsafe.Pointer(&lines[0])), 0, uintptr(unsafe.Pointer(&c.code)))
	if err := c.created(clCreateProgramWithSource); err != nil {
		return 0, err
	}
	// Without -w some drivers print the number of warnings.
	flags := append([]byte("-w "+options), 0)
	if err := status(clBuildProgram, p, 1, uintptr(unsafe.Pointer(&c.Info.device)), uintptr(unsafe.Pointer(&flags[0])), 0, 0); err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", file, options, err, c.buildLog(p))
		_ = status(clReleaseProgram, p) // the build error is more useful
		return 0, err
	}
	c.programs[key] = p
	return p, nil
}

// buildLog returns the compiler's messages.
func (c *Context) buildLog(program uintptr) string {
	var size uintptr
	if status(clGetProgramBuildInfo, program, c.Info.device, programBuildLog, 0, 0, uintptr(unsafe.Pointer(&size))) != nil || size == 0 {
		return ""
	}
	text := make([]byte, size)
	if status(clGetProgramBuildInfo, program, c.Info.device, programBuildLog, size, uintptr(unsafe.Pointer(&text[0])), 0) != nil {
		return ""
	}
	return strings.TrimRight(string(text), "\x00\n")
}

// MaxGroup returns the largest group of this kernel. A driver may allow fewer work
// items than the device does if each needs many registers. NVIDIA's driver reports
// 256 for kernels that it built for groups of 840 and runs, faster than smaller
// ones; so its limit is ignored.
func (k *Kernel) MaxGroup() (int, error) {
	if k.context.maxGroupOverride != nil {
		return k.context.maxGroupOverride(k), nil
	}
	if k.context.Info.nvidia {
		return k.context.Info.MaxGroup, nil
	}
	var size uintptr
	err := status(clGetKernelWorkGroupInfo, k.handle, k.context.Info.device, kernelMaxGroup, unsafe.Sizeof(size), uintptr(unsafe.Pointer(&size)), 0)
	return int(size), err
}

// Close releases the kernel.
func (k *Kernel) Close() error {
	if k == nil || k.handle == 0 {
		return nil
	}
	err := status(clReleaseKernel, k.handle)
	k.handle = 0
	return err
}

// rename sets the name in traces and errors.
func (k *Kernel) rename(name string) {
	if name != "" {
		k.name = name
	}
}

// Set sets all arguments: *Memory, *Image, int or float32 each.
func (k *Kernel) Set(args ...any) error {
	for i, a := range args {
		var err error
		switch a := a.(type) {
		case *Memory:
			err = k.SetMemory(i, a)
		case *Image:
			k.unrecordable = errNotShared
			err = k.setHandle(i, &a.handle)
		case int:
			err = k.SetInt(i, a)
		case float32:
			err = k.setBits(i, *(*uint32)(unsafe.Pointer(&a)))
		default:
			return fmt.Errorf("opencl: %s: argument %d has unsupported type %T", k.name, i, a)
		}
		if err != nil {
			return fmt.Errorf("%s: argument %d: %w", k.name, i, err)
		}
	}
	return nil
}

// SetMemory sets an argument to a buffer.
func (k *Kernel) SetMemory(i int, m *Memory) error {
	k.recordArgument(i, argument{memory: m})
	return k.setHandle(i, &m.handle)
}

// setHandle sets an argument to a driver object. The handle must lie on the heap.
func (k *Kernel) setHandle(i int, handle *uintptr) error {
	return k.setArgument(i, unsafe.Sizeof(*handle), uintptr(unsafe.Pointer(handle)))
}

// SetInt sets an argument to an integer.
func (k *Kernel) SetInt(i, value int) error { return k.setBits(i, uint32(int32(value))) }

func (k *Kernel) setBits(i int, bits uint32) error {
	k.context.argument = bits
	k.recordArgument(i, argument{bits: bits})
	return k.setArgument(i, 4, uintptr(unsafe.Pointer(&k.context.argument)))
}

func (k *Kernel) setArgument(i int, size, from uintptr) error {
	k.context.stats.Arguments++
	return k.context.do(clSetKernelArg, k.handle, uintptr(i), size, from)
}
