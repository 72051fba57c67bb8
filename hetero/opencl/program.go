package opencl

import (
	"embed"
	"fmt"
	"strings"
	"unsafe"
)

//go:embed kernels/*.cl
var sources embed.FS

// Kernel is a function of a program with its arguments, which stay set from one
// launch to the next.
type Kernel struct {
	context *Context
	name    string
	handle  uintptr
	// unrecordable is why the kernel cannot be recorded. Of others there are the arguments
	// as they are now, and CUDA's function, unless recordings are emulated.
	unrecordable error
	arguments    []argument
	function     uintptr
}

// Kernel returns a function of an embedded source file, built with options such as
// -DFORMAT=1. Programs are built once; each kernel has arguments of its own.
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

// includes are the files that others begin with.
var includes = map[string][]string{
	"probe.cl":  {"codes.cl"},
	"matvec.cl": {"common.cl", "codes.cl", "weights.cl", "input.cl"},
	"matmul.cl": {"common.cl", "codes.cl", "weights.cl", "tile.cl"},
	"tensor.cl": {"common.cl", "codes.cl", "weights.cl", "tile.cl"},
	"layer.cl":  {"common.cl", "kv.cl"},
	"attend.cl": {"common.cl", "kv.cl"},
}

// program builds a source file, or finds what was built before.
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
	// Some drivers print how many warnings there are to whoever looks on.
	flags := append([]byte("-w "+options), 0)
	if err := status(clBuildProgram, p, 1, uintptr(unsafe.Pointer(&c.Info.device)), uintptr(unsafe.Pointer(&flags[0])), 0, 0); err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", file, options, err, c.buildLog(p))
		_ = status(clReleaseProgram, p) // the first failure says more
		return 0, err
	}
	c.programs[key] = p
	return p, nil
}

// buildLog returns what the compiler said.
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

// MaxGroup returns how many work items a group of this kernel may have. A driver may
// allow fewer than the device has room for where each needs many registers. NVIDIA's
// says 256 of kernels that it has built for groups of 840 and runs, faster than smaller ones.
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

// Close gives the kernel back.
func (k *Kernel) Close() error {
	if k == nil || k.handle == 0 {
		return nil
	}
	err := status(clReleaseKernel, k.handle)
	k.handle = 0
	return err
}

// rename gives launches another name in traces and errors.
func (k *Kernel) rename(name string) {
	if name != "" {
		k.name = name
	}
}

// Set sets all arguments: *Memory, *Texture, int or float32 each.
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
			return fmt.Errorf("opencl: %s: argument %d is a %T", k.name, i, a)
		}
		if err != nil {
			return fmt.Errorf("%s: argument %d: %w", k.name, i, err)
		}
	}
	return nil
}

// SetMemory sets one argument to a buffer.
func (k *Kernel) SetMemory(i int, m *Memory) error {
	k.recordArgument(i, argument{memory: m})
	return k.setHandle(i, &m.handle)
}

// setHandle sets one argument to what a handle of the driver stands for, which is part
// of something on the heap.
func (k *Kernel) setHandle(i int, handle *uintptr) error {
	return k.setArgument(i, unsafe.Sizeof(*handle), uintptr(unsafe.Pointer(handle)))
}

// SetInt sets one argument to an integer.
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
