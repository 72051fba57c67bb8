package modeltest

import (
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// PackedAs is a variant of packed weights. Its writer follows the published descriptions of the
// formats and shares no code with the reader.
type PackedAs struct {
	Name      string
	AWQ, v2   bool
	Bits      int
	Group     int // -1: one group of all inputs
	Symmetric bool
	Order     bool // inputs are assigned to groups in random order
}

// Config is the quantization_config of the variant.
func (p PackedAs) Config() Fields {
	if p.AWQ {
		return Fields{"quant_method": "awq", "bits": p.Bits, "group_size": p.Group, "zero_point": true, "version": "gemm"}
	}
	format := "gptq"
	if p.v2 {
		format = "gptq_v2"
	}
	return Fields{
		"quant_method": "gptq", "bits": p.Bits, "group_size": p.Group, "sym": p.Symmetric, "desc_act": p.Order,
		"checkpoint_format": format,
	}
}

// RawTensor is a tensor of a safetensors file in any format.
type RawTensor struct {
	Dtype string
	Shape []int
	Data  []byte
}

// Words is a tensor of 32-bit words.
func Words(shape []int, values []uint32) RawTensor {
	r := RawTensor{Dtype: "I32", Shape: shape}
	for _, v := range values {
		r.Data = binary.LittleEndian.AppendUint32(r.Data, v)
	}
	return r
}

// WriteRaw writes a model directory m.
func WriteRaw(t testing.TB, config Fields, tensors map[string]RawTensor) vfs.FS {
	t.Helper()
	header, data := map[string]any{}, []byte{}
	for name, r := range tensors {
		header[name] = map[string]any{"dtype": r.Dtype, "shape": r.Shape, "data_offsets": []int{len(data), len(data) + len(r.Data)}}
		data = append(data, r.Data...)
	}
	text, err := json.Marshal(header)
	require.NoError(t, err)
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("m"))
	WriteFile(t, fsys, "m/model.safetensors", append(append(file, text...), data...))
	text, err = json.Marshal(config)
	require.NoError(t, err)
	WriteFile(t, fsys, "m/config.json", text)
	return fsys
}

// openFixture reads the config.json of a fixture, and opens its tensors until the test ends.
func openFixture(t testing.TB, dir string) (config Fields, src *safetensors.Dir) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &config))
	src, err = safetensors.Open(vfs.OS(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = src.Close() })
	return config, src
}

// ReadRaw reads the config.json and the tensors of a fixture.
func ReadRaw(t testing.TB, dir string) (config Fields, tensors map[string]RawTensor) {
	t.Helper()
	config, src := openFixture(t, dir)
	tensors = map[string]RawTensor{}
	for _, tensor := range src.Tensors() {
		tensors[tensor.Name] = RawTensor{Dtype: tensor.Type.String(), Shape: tensor.Shape, Data: readRows(t, src, tensor).data}
	}
	return config, tensors
}

// Pack adds a weight's packed tensors with random codes to a file, and returns the floats that
// they represent.
func (p PackedAs) Pack(tensors map[string]RawTensor, module string, rows, cols int, rng *rand.Rand) []float32 {
	groups := 1
	if p.Group > 0 {
		groups = (cols + p.Group - 1) / p.Group
	}
	largest := 1<<p.Bits - 1
	groupOf := make([]uint32, cols)
	for i := range groupOf {
		groupOf[i] = uint32(i * groups / cols)
		if p.Group > 0 {
			groupOf[i] = uint32(i / p.Group)
		}
	}
	if p.Order {
		rng.Shuffle(cols, func(i, j int) { groupOf[i], groupOf[j] = groupOf[j], groupOf[i] })
	}
	zeros, scales := make([]uint32, groups*rows), make([]byte, 0, 2*groups*rows)
	for i := range zeros {
		zeros[i] = uint32(largest/2 + 1)
		if !p.Symmetric {
			zeros[i] = uint32(rng.IntN(largest + 1)) // 0 is stored as the largest code in GPTQ's first format
		}
		scales = binary.LittleEndian.AppendUint16(scales, quant.F32ToF16((rng.Float32()+0.2)/float32(largest)/16))
	}
	codes, values := make([]uint32, rows*cols), make([]float32, rows*cols)
	for i := range codes {
		row, g := i/cols, int(groupOf[i%cols])
		codes[i] = uint32(rng.IntN(largest + 1))
		scale := quant.F16ToF32(binary.LittleEndian.Uint16(scales[2*(g*rows+row):]))
		values[i] = scale * float32(int(codes[i])-int(zeros[g*rows+row]))
	}
	perWord := 32 / p.Bits
	tensors[module+".scales"] = RawTensor{Dtype: "F16", Shape: []int{groups, rows}, Data: scales}
	if p.AWQ {
		byInput := make([]uint32, rows*cols)
		for i, c := range codes {
			byInput[i%cols*rows+i/cols] = c
		}
		tensors[module+".qweight"] = Words([]int{cols, rows / perWord}, p.interleaved(byInput))
		tensors[module+".qzeros"] = Words([]int{groups, rows / perWord}, p.interleaved(zeros))
		return values
	}
	packed := make([]uint32, cols/perWord*rows)
	for i, c := range codes {
		row, col := i/cols, i%cols
		packed[col/perWord*rows+row] |= c << (col % perWord * p.Bits)
	}
	tensors[module+".qweight"] = Words([]int{cols / perWord, rows}, packed)
	stored := make([]uint32, len(zeros)/perWord)
	for i, z := range zeros {
		if !p.v2 {
			z = (z - 1) & uint32(largest)
		}
		stored[i/perWord] |= z << (i % perWord * p.Bits)
	}
	tensors[module+".qzeros"] = Words([]int{groups, rows / perWord}, stored)
	tensors[module+".g_idx"] = Words([]int{cols}, groupOf)
	return values
}

// interleaved packs eight consecutive numbers in AWQ's order.
func (p PackedAs) interleaved(numbers []uint32) []uint32 {
	order := [8]int{0, 2, 4, 6, 1, 3, 5, 7}
	out := make([]uint32, len(numbers)/8)
	for i := range out {
		for k, from := range order {
			out[i] |= numbers[8*i+from] << (4 * k)
		}
	}
	return out
}

// quantizable reports whether quantizers pack a tensor: matrices of layers, but not convolutions
// or the routers of experts.
func quantizable(name string, shape []int) bool {
	return len(shape) == 2 && strings.Contains(name, ".layers.") && strings.HasSuffix(name, ".weight") &&
		!strings.HasSuffix(name, ".gate.weight") && !strings.HasSuffix(name, "expert_gate.weight") && shape[0]%8 == 0 && shape[1]%8 == 0
}

// PackFixture writes a fixture with random packed weights, and again with the floats that they
// represent. values maps tensor names to those floats.
func PackFixture(t *testing.T, dir string, p PackedAs) (packed, plain vfs.FS, values map[string][]float32) {
	t.Helper()
	config, src := openFixture(t, dir)
	rng := rand.New(rand.NewPCG(5, 6))
	inPacked, inPlain, values := map[string]RawTensor{}, map[string]RawTensor{}, map[string][]float32{}
	for _, tensor := range src.Tensors() {
		r := readRows(t, src, tensor)
		if quantizable(tensor.Name, tensor.Shape) {
			module := strings.TrimSuffix(tensor.Name, ".weight")
			v := p.Pack(inPacked, module, tensor.Rows(), tensor.Cols(), rng)
			inPlain[tensor.Name] = RawTensor{Dtype: "F32", Shape: tensor.Shape, Data: modelfile.AppendFloats(nil, v)}
			values[tensor.Name] = v
			continue
		}
		raw := RawTensor{Dtype: tensor.Type.String(), Shape: tensor.Shape, Data: r.data}
		inPacked[tensor.Name], inPlain[tensor.Name] = raw, raw
	}
	require.NotEmpty(t, values)
	plain = WriteRaw(t, config, inPlain)
	config["quantization_config"] = p.Config()
	return WriteRaw(t, config, inPacked), plain, values
}

// PackVariants lists the variants of packed checkpoints.
var PackVariants = []PackedAs{
	{Name: "gptq", Bits: 4, Group: 32},
	{Name: "gptq symmetric", Bits: 4, Group: 64, Symmetric: true},
	{Name: "gptq whole rows", Bits: 4, Group: -1},
	{Name: "gptq ordered by activation", Bits: 4, Group: 32, Order: true},
	{Name: "gptq v2", Bits: 4, Group: 32, v2: true},
	{Name: "gptq symmetric ordered", Bits: 4, Group: 32, Symmetric: true, Order: true},
	{Name: "gptq odd groups", Bits: 4, Group: 24},
	{Name: "gptq odd groups ordered", Bits: 4, Group: 24, Order: true},
	{Name: "gptq 8 bits", Bits: 8, Group: 32},
	{Name: "gptq 8 bits symmetric", Bits: 8, Group: 128, Symmetric: true},
	{Name: "gptq v2 8 bits symmetric", Bits: 8, Group: 32, Symmetric: true, v2: true},
	{Name: "awq", Bits: 4, Group: 32, AWQ: true},
	{Name: "awq whole rows", Bits: 4, Group: -1, AWQ: true},
}

// WholeTensor returns all values of a tensor.
func WholeTensor(t *testing.T, src store.Source, name string) []float32 {
	t.Helper()
	tensor, ok := src.Tensor(name)
	require.True(t, ok, name)
	values, err := modelfile.ReadFloats(src, tensor)
	require.NoError(t, err)
	return values
}
