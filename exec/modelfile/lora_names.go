package modelfile

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/exec/arch"
)

// layerTensor matches the name of a weight of a layer in a pack: the layer and the role.
var layerTensor = regexp.MustCompile(`^blk\.(\d+)\.(.+)\.weight$`)

// addHubNames lets adapters find the tensors of a pack by their names in the safetensors
// model, which adapters use. A name that several tensors have is that of a fused matrix, whose
// parts a pack stores; an adapter cannot change it there.
func (m *merged) addHubNames(family *arch.Family) {
	count := map[string]int{}
	for i, t := range m.Visible {
		name := hubName(family, t.Name)
		if _, taken := m.Index[name]; name == "" || taken && count[name] == 0 {
			continue
		}
		m.Index[name] = i
		count[name]++
	}
	for name, n := range count {
		if n > 1 {
			delete(m.Index, name)
		}
	}
}

// hubName returns the safetensors name of a weight of a pack, "" if it has none of its own.
func hubName(family *arch.Family, name string) string {
	role, layer := strings.TrimSuffix(name, ".weight"), -1
	if part := layerTensor.FindStringSubmatch(name); part != nil {
		role = part[2]
		layer, _ = strconv.Atoi(part[1]) // digits; an overflow gives a name that no adapter has
	}
	if known := family.HFName(role, -1); known == "" || strings.Contains(known, "%") {
		return ""
	}
	return family.HFName(role, layer) + ".weight"
}
