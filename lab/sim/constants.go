package sim

// Constant is an input of the simulator.
type Constant struct {
	SoC    string  `json:"soc"`
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Source string  `json:"source"` // paper and section, or the reason for an assumption
	Fitted bool    `json:"fitted"` // fitted on the published figures of Llama-8B, because no source gives the value
}

// Sources of the constants.
const (
	heteroLLM = "HeteroLLM (preprints202501.0901) "
	mllmNPU   = "mllm-NPU (arXiv 2407.05858) "
	ttsNPU    = "Test-time scaling on mobile NPUs "
)

// Names of the constants.
const (
	gpuFlops     = "GPU arithmetic"
	cpuFlops     = "CPU arithmetic"
	npuFlops     = "NPU arithmetic, fp16"
	npuInts      = "NPU arithmetic, int8, one token"
	npuFloor     = "NPU arithmetic at worst"
	npuArray     = "NPU array side"
	npuStream    = "NPU weights into the array"
	npuWeight    = "bytes of a weight in the array"
	npuShape     = "NPU shape effect"
	npuStart     = "NPU start of a graph"
	npuMemory    = "NPU address space"
	oneBandwidth = "bandwidth of one processor"
	allBandwidth = "bandwidth of all together"
	copyCost     = "copy between processors"
	submitCost   = "submit"
	requeueCost  = "GPU submit to an empty queue"
	pollCost     = "look at a flag"
	sleepGrain   = "shortest sleep"
	prepShort    = "prepare 4 graphs, length 135"
	prepLong     = "prepare 4 graphs, length 1000"
	prepSteps    = "preparing goes by powers of"
)

// gen3 describes the Snapdragon 8 Gen 3, which the papers describe in the most detail.
var gen3 = []Constant{
	{Name: gpuFlops, Value: 0.9e12, Unit: "flop/s", Source: heteroLLM + "§1: about 1 TFLOPS in practice, 2.8 in theory; on 8B prefill of 256 by the GPU alone", Fitted: true},
	{Name: cpuFlops, Value: 0.4e12, Unit: "flop/s", Source: mllmNPU + "§2.2 (NPU int8 4.5–5.8x CPU int8) with §3.4 (315 ms for 256 tokens of Qwen1.5-1.8B on the NPU)"},
	{Name: npuFlops, Value: 10e12, Unit: "flop/s", Source: heteroLLM + "§1: up to 10 TFLOPS in practice"},
	{Name: npuInts, Value: 73e12, Unit: "op/s", Source: heteroLLM + "Table 1; §5.1, footnote: decoding uses the NPU's integers only"},
	{Name: npuFloor, Value: 1.5e12, Unit: "flop/s", Source: "within " + heteroLLM + "§4.1.1 (FFN-down 0.5x to 1.5x of the GPU, of 1 TFLOPS in §1); on 8B prefill, tensor-level", Fitted: true},
	{Name: npuArray, Value: 32, Unit: "", Source: heteroLLM + "§3.2 and " + ttsNPU + "§3 (fp16 tiles of 32 × 32)"},
	{Name: npuStream, Value: 60e9, Unit: "byte/s", Source: ttsNPU + "Table 2: DMA"},
	{Name: npuWeight, Value: 2, Unit: "byte", Source: ttsNPU + "§3 and §5: weights are turned into fp16 on their way; that this adds to the arithmetic is our model"},
	{Name: npuShape, Value: 1.3, Unit: "", Source: "time × (1 + c · cols/rows), after " + heteroLLM + "§3.2 ②③; c on 8B prefill of 256", Fitted: true},
	{Name: npuStart, Value: 20e-6, Unit: "s", Source: "on 8B decoding, +23.4 % and 4.01x", Fitted: true},
	{Name: npuMemory, Value: 4 << 30, Unit: "byte", Source: mllmNPU + "§4: 4 GB"},
	{Name: oneBandwidth, Value: 43.3e9, Unit: "byte/s", Source: heteroLLM + "§5.3 (§3.3: 40–45 GB/s for each processor)"},
	{Name: allBandwidth, Value: 59.1e9, Unit: "byte/s", Source: heteroLLM + "§5.3"},
	{Name: copyCost, Value: 400e-6, Unit: "s", Source: heteroLLM + "§3.1 ②: regardless of size"},
	{Name: submitCost, Value: 20e-6, Unit: "s", Source: heteroLLM + "§3.1 ②: 10 to 20 µs; of what the host pays, upper ends throughout"},
	{Name: requeueCost, Value: 100e-6, Unit: "s", Source: heteroLLM + "§3.1 ②: 50 to 100 µs; upper end"},
	{Name: pollCost, Value: 5e-6, Unit: "s", Source: heteroLLM + "§4.2: a few microseconds"},
	{Name: sleepGrain, Value: 100e-6, Unit: "s", Source: heteroLLM + "§4.2: 80 to 100 µs; upper end"},
	{Name: prepShort, Value: 408.4e-3, Unit: "s", Source: heteroLLM + "§5.2.2, Llama-8B"},
	{Name: prepLong, Value: 2050e-3, Unit: "s", Source: heteroLLM + "§5.2.2, Llama-8B"},
	{Name: prepSteps, Value: 2, Unit: "", Source: "of the length; on 8B at 525, online preparation", Fitted: true},
}

// others lists the published differences of other chips from the 8 Gen 3. Their practical rates are
// the vendor's rates, scaled by the fraction that the 8 Gen 3 reaches of its own (GPU 1 of 2.8
// TFLOPS, NPU 10 of 36 fp16). All other values are those of the 8 Gen 3.
var others = map[string][]Constant{
	"8-gen-2": {
		{Name: npuMemory, Value: 2 << 30, Unit: "byte", Source: ttsNPU + "§7.2.2: 2 GiB"},
	},
	"8-elite": {
		{Name: npuMemory, Value: 4 << 30, Unit: "byte", Source: ttsNPU + "§7.2.2 and §8: 32-bit addresses"},
	},
	"dimensity-9300": {
		{Name: gpuFlops, Value: 4.0e12 / 2.8, Unit: "flop/s", Source: heteroLLM + "Table 1: 4.0 TFLOPS, scaled as the 8 Gen 3"},
		{Name: npuFlops, Value: 24e12 * 10 / 36, Unit: "flop/s", Source: heteroLLM + "Table 1: 24 TFLOPS, scaled as the 8 Gen 3"},
		{Name: npuInts, Value: 48e12, Unit: "op/s", Source: heteroLLM + "Table 1"},
	},
	"a18": {
		{Name: gpuFlops, Value: 1.8e12 / 2.8, Unit: "flop/s", Source: heteroLLM + "Table 1: 1.8 TFLOPS, scaled as the 8 Gen 3"},
		{Name: npuFlops, Value: 17e12 * 10 / 36, Unit: "flop/s", Source: heteroLLM + "Table 1: 17 TFLOPS, scaled as the 8 Gen 3"},
		{Name: npuInts, Value: 35e12, Unit: "op/s", Source: heteroLLM + "Table 1"},
	},
}

// SoCs lists the chips that can be simulated, the best known first.
func SoCs() []string { return []string{"8-gen-3", "8-gen-2", "8-elite", "dimensity-9300", "a18"} }

// Constants returns the constants of a chip, or nil for an unknown chip.
func Constants(soc string) []Constant {
	differing, known := others[soc]
	if !known && soc != "8-gen-3" {
		return nil
	}
	list := make([]Constant, 0, len(gen3))
	for _, c := range gen3 {
		if known {
			c.Source = "taken from the 8 Gen 3: " + c.Source
		}
		for _, d := range differing {
			if d.Name == c.Name {
				c = d
			}
		}
		c.SoC = soc
		list = append(list, c)
	}
	return list
}
