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
	// unrecordable is the reason why the kernel cannot be recorded, or nil. For a
	// recordable kernel the context keeps the current arguments and, unless graphs
	// are emulated, its CUDA function.
	unrecordable error
	arguments    []argument
	function     uintptr
}

// Kernel creates a kernel from an embedded source file and build options such as
// -DFORMAT=1. The context builds a program once; each kernel has its own arguments.
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

// includes lists the shared files that precede a source file in its program.
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

// MaxGroup returns the largest group of this kernel. A kernel whose work items need
// many registers may have a lower limit than the device. MaxGroup ignores the limit of
// NVIDIA's driver: the driver reports 256 even for kernels that it has built for
// groups of 840, which it runs correctly and faster than smaller groups.
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

// Set sets all arguments. Each is a *Memory, *Image, int or float32.
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

// setHandle sets an argument to a driver object. The handle must be on the heap.
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
