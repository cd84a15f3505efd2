package archtest

import (
	"slices"
	"strings"
)

// products are the programs that people run in earnest.
var products = []string{"cmd/api", "cmd/reconciler"}

// stage is what no product may hold, by whatever way.
var stage = []string{"demo/...", "test/...", "lab/..."}

// linkBreaches follows the imports of each product through all packages of
// ours. The table of imports judges one step; this judges where the steps
// lead. It reports the shortest way to each package that must not be there.
func linkBreaches(sources []source) []breach {
	imports := map[string][]string{} // by directory
	for _, file := range sources {
		if !file.test {
			imports[file.dir] = append(imports[file.dir], file.imports()...)
		}
	}
	var breaches []breach
	for _, product := range products {
		if _, found := imports[product]; !found {
			breaches = append(breaches, breach{product, "is a product by test/archtest/links.go, and has no source"})
		}
		reached := map[string]bool{product: true}
		ways := [][]string{{product}}
		for len(ways) > 0 {
			way := ways[0]
			ways = ways[1:]
			for _, target := range imports[way[len(way)-1]] {
				dir, ours := strings.CutPrefix(target, modulePath+"/")
				if !ours || reached[dir] {
					continue
				}
				reached[dir] = true
				longer := append(slices.Clone(way), dir)
				if matchesAny(stage, dir) {
					breaches = append(breaches, breach{product, "links " + dir + ", by " + strings.Join(longer, " → ")})
					continue
				}
				ways = append(ways, longer)
			}
		}
	}
	return breaches
}
