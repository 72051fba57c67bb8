package exec

import (
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/vfs"
)

// packedAs is a variant of packed weights. Its writer follows the published descriptions of the
// formats and shares no code with the reader.
type packedAs struct {
	name      string
	awq, v2   bool
	bits      int
	group     int // -1: one group of all inputs
	symmetric bool
	order     bool // inputs are assigned to groups in random order
}

func (p packedAs) config() fields {
	if p.awq {
		return fields{"quant_method": "awq", "bits": p.bits, "group_size": p.group, "zero_point": true, "version": "gemm"}
	}
	format := "gptq"
	if p.v2 {
		format = "gptq_v2"
	}
	return fields{
		"quant_method": "gptq", "bits": p.bits, "group_size": p.group, "sym": p.symmetric, "desc_act": p.order,
		"checkpoint_format": format,
	}
}

// rawTensor is a tensor of a safetensors file in any format.
type rawTensor struct {
	dtype string
	shape []int
	data  []byte
}

func words(shape []int, values []uint32) rawTensor {
	r := rawTensor{dtype: "I32", shape: shape}
	for _, v := range values {
		r.data = binary.LittleEndian.AppendUint32(r.data, v)
	}
	return r
}

// writeRaw writes a model directory m.
func writeRaw(t testing.TB, config fields, tensors map[string]rawTensor) vfs.FS {
	t.Helper()
	header, data := map[string]any{}, []byte{}
	for name, r := range tensors {
		header[name] = map[string]any{"dtype": r.dtype, "shape": r.shape, "data_offsets": []int{len(data), len(data) + len(r.data)}}
		data = append(data, r.data...)
	}
	text, err := json.Marshal(header)
	require.NoError(t, err)
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("m"))
	writeFile(t, fsys, "m/model.safetensors", append(append(file, text...), data...))
	text, err = json.Marshal(config)
	require.NoError(t, err)
	writeFile(t, fsys, "m/config.json", text)
	return fsys
}

// pack adds a weight's packed tensors with random codes to a file, and returns the floats that
// they represent.
func (p packedAs) pack(tensors map[string]rawTensor, module string, rows, cols int, rng *rand.Rand) []float32 {
	groups := 1
	if p.group > 0 {
		groups = (cols + p.group - 1) / p.group
	}
	largest := 1<<p.bits - 1
	groupOf := make([]uint32, cols)
	for i := range groupOf {
		groupOf[i] = uint32(i * groups / cols)
		if p.group > 0 {
			groupOf[i] = uint32(i / p.group)
		}
	}
	if p.order {
		rng.Shuffle(cols, func(i, j int) { groupOf[i], groupOf[j] = groupOf[j], groupOf[i] })
	}
	zeros, scales := make([]uint32, groups*rows), make([]byte, 0, 2*groups*rows)
	for i := range zeros {
		zeros[i] = uint32(largest/2 + 1)
		if !p.symmetric {
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
	perWord := 32 / p.bits
	tensors[module+".scales"] = rawTensor{"F16", []int{groups, rows}, scales}
	if p.awq {
		byInput := make([]uint32, rows*cols)
		for i, c := range codes {
			byInput[i%cols*rows+i/cols] = c
		}
		tensors[module+".qweight"] = words([]int{cols, rows / perWord}, p.interleaved(byInput))
		tensors[module+".qzeros"] = words([]int{groups, rows / perWord}, p.interleaved(zeros))
		return values
	}
	packed := make([]uint32, cols/perWord*rows)
	for i, c := range codes {
		row, col := i/cols, i%cols
		packed[col/perWord*rows+row] |= c << (col % perWord * p.bits)
	}
	tensors[module+".qweight"] = words([]int{cols / perWord, rows}, packed)
	stored := make([]uint32, len(zeros)/perWord)
	for i, z := range zeros {
		if !p.v2 {
			z = (z - 1) & uint32(largest)
		}
		stored[i/perWord] |= z << (i % perWord * p.bits)
	}
	tensors[module+".qzeros"] = words([]int{groups, rows / perWord}, stored)
	tensors[module+".g_idx"] = words([]int{cols}, groupOf)
	return values
}

// interleaved packs eight consecutive numbers in AWQ's order.
func (p packedAs) interleaved(numbers []uint32) []uint32 {
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

// packFixture writes a fixture with random packed weights, and again with the floats that they
// represent. values maps tensor names to those floats.
func packFixture(t *testing.T, dir string, p packedAs) (packed, plain vfs.FS, values map[string][]float32) {
	t.Helper()
	var config fields
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &config))
	src, err := safetensors.Open(vfs.OS(), dir)
	require.NoError(t, err)
	defer src.Close()
	rng := rand.New(rand.NewPCG(5, 6))
	inPacked, inPlain, values := map[string]rawTensor{}, map[string]rawTensor{}, map[string][]float32{}
	for _, tensor := range src.Tensors() {
		r := readRows(t, src, tensor)
		if quantizable(tensor.Name, tensor.Shape) {
			module := strings.TrimSuffix(tensor.Name, ".weight")
			v := p.pack(inPacked, module, tensor.Rows(), tensor.Cols(), rng)
			inPlain[tensor.Name] = rawTensor{"F32", tensor.Shape, modelfile.AppendFloats(nil, v)}
			values[tensor.Name] = v
			continue
		}
		raw := rawTensor{tensor.Type.String(), tensor.Shape, r.data}
		inPacked[tensor.Name], inPlain[tensor.Name] = raw, raw
	}
	require.NotEmpty(t, values)
	plain = writeRaw(t, config, inPlain)
	config["quantization_config"] = p.config()
	return writeRaw(t, config, inPacked), plain, values
}

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(3, 4)) }

// unpackRaw opens tensors that were packed as p.
func unpackRaw(t *testing.T, tensors map[string]rawTensor, p packedAs) (store.Source, []string, error) {
	t.Helper()
	src, err := safetensors.Open(writeRaw(t, fields{}, tensors), "m")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, src.Close()) })
	text, err := json.Marshal(fields{"quantization_config": p.config()})
	require.NoError(t, err)
	c, err := arch.NewHFConfig("config.json", text)
	require.NoError(t, err)
	packing := c.IntPacking()
	require.NoError(t, c.Err)
	return modelfile.UnpackIntegers(src, packing, "m")
}
