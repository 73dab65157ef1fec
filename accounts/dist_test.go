package accounts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// draws returns n ranks, unsorted.
func draws(d Dist, seed uint64, n int) []int64 {
	r := rand.New(rand.NewPCG(seed, 0))
	ranks := make([]int64, n)
	for i := range ranks {
		ranks[i] = d.Rank(r)
	}
	return ranks
}

// must returns d or fails t.
func must(t testing.TB) func(Dist, error) Dist {
	return func(d Dist, err error) Dist {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// tally counts ranks 1..n; a rank outside fails t.
func tally(t *testing.T, ranks []int64, n int64) []int64 {
	t.Helper()
	counts := make([]int64, n)
	for _, k := range ranks {
		if k < 1 || k > n {
			t.Fatalf("rank %d is outside 1..%d", k, n)
		}
		counts[k-1]++
	}
	return counts
}

func TestDistErrors(t *testing.T) {
	nan := math.NaN()
	second := func(_ Dist, err error) error { return err }
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"pareto small", second(NewPareto(999_999, ParetoR, ParetoP)), "it needs 1000000: seed more rows, or choose another distribution"},
		{"pareto smallest", second(NewPareto(MinParetoRows, ParetoR, ParetoP)), ""},
		{"pareto largest", second(NewPareto(MaxRows, MaxRows, ParetoP)), ""},
		{"pareto too large", second(NewPareto(MaxRows+1, ParetoR, ParetoP)), "choose 1 to 9007199254740992 rows"},
		{"pareto none", second(NewPareto(0, ParetoR, ParetoP)), "over 0 accounts"},
		{"pareto r", second(NewPareto(1e6, 0, ParetoP)), "r = 0"},
		{"pareto p 0", second(NewPareto(1e6, ParetoR, 0)), "p = 0"},
		{"pareto p 1", second(NewPareto(1e6, ParetoR, 1)), "p = 1"},
		{"pareto p NaN", second(NewPareto(1e6, ParetoR, nan)), "p = NaN"},
		{"pareto misses the table", second(NewPareto(1e6, MaxRows, ParetoP)), "choose a smaller r or seed more rows"},
		{"zipfian none", second(NewZipfian(0, 1)), "over 0 accounts"},
		{"zipfian too large", second(NewZipfian(MaxRows+1, 1)), "zipfian over"},
		{"zipfian theta 0", second(NewZipfian(10, 0)), "theta = 0"},
		{"zipfian theta 2", second(NewZipfian(10, 2)), ""},
		{"zipfian theta 2.1", second(NewZipfian(10, 2.1)), "at most 2"},
		{"zipfian theta NaN", second(NewZipfian(10, nan)), "theta = NaN"},
		{"uniform none", second(NewUniform(0)), "uniform over 0"},
		{"uniform largest", second(NewUniform(MaxRows)), ""},
		{"hotspot of one", second(NewHotspot(1, 0.5, 0.5)), "2 rows or more"},
		{"hotspot none", second(NewHotspot(-1, 0.5, 0.5)), "over -1 accounts"},
		{"hotspot no accounts", second(NewHotspot(10, 0, 0.5)), "share 0 of the accounts"},
		{"hotspot all accounts", second(NewHotspot(10, 1, 0.5)), "share 1 of the accounts"},
		{"hotspot NaN", second(NewHotspot(10, nan, 0.5)), "share NaN of the accounts"},
		{"hotspot traffic", second(NewHotspot(10, 0.5, 1.5)), "share 1.5 of the traffic"},
		{"hotspot traffic NaN", second(NewHotspot(10, 0.5, nan)), "share NaN of the traffic"},
		{"hotspot all traffic", second(NewHotspot(10, 0.5, 1)), ""},
	} {
		t.Run(tt.name, func(t *testing.T) { wantError(t, tt.err, tt.want) })
	}
}

func TestDistIsDeterminedBySeed(t *testing.T) {
	const n = 2_000_000
	for name, d := range map[string]Dist{
		"pareto":  must(t)(NewPareto(n, ParetoR, ParetoP)),
		"zipfian": must(t)(NewZipfian(n, 0.99)),
		"uniform": must(t)(NewUniform(n)),
		"hotspot": must(t)(NewHotspot(n, 0.1, 0.9)),
	} {
		a, b, c := draws(d, 1, 100), draws(d, 1, 100), draws(d, 2, 100)
		if !slices.Equal(a, b) {
			t.Errorf("%s: one seed gave two sequences", name)
		}
		if slices.Equal(a, c) {
			t.Errorf("%s: two seeds gave one sequence", name)
		}
	}
}

func TestUniform(t *testing.T) {
	for _, n := range []int64{2, 3, 10, 1000} {
		counts := tally(t, draws(must(t)(NewUniform(n)), 3, 200_000), n)
		chiSquare(t, fmt.Sprintf("uniform over %d", n), counts, flat(int(n)))
	}
	tally(t, draws(must(t)(NewUniform(1)), 3, 10), 1)

	ranks := draws(must(t)(NewUniform(MaxRows)), 4, 100_000)
	slices.Sort(ranks)
	kolmogorov(t, "uniform over 2^53", ranks, func(k int64) float64 { return float64(k) / float64(MaxRows) })
}

func TestHotspot(t *testing.T) {
	const draw = 200_000
	for _, tt := range []struct {
		n, hot            int64
		accounts, traffic float64
	}{
		{1000, 200, 0.2, 0.8},
		{100, 1, 0.01, 0.99},
		{10, 5, 0.5, 0.1},
		{10, 1, 0.001, 0.5}, // at least one account is hot
		{10, 9, 0.999, 0.5}, // and at least one is not
		{2, 1, 0.5, 0.25},
	} {
		name := fmt.Sprintf("%+v", tt)
		counts := tally(t, draws(must(t)(NewHotspot(tt.n, tt.accounts, tt.traffic)), 5, draw), tt.n)
		var hot int64
		for _, c := range counts[:tt.hot] {
			hot += c
		}
		share(t, name, hot, draw, tt.traffic)
		weights := flat(int(tt.n))
		for i := range weights {
			weights[i] = tt.traffic / float64(tt.hot)
			if int64(i) >= tt.hot {
				weights[i] = (1 - tt.traffic) / float64(tt.n-tt.hot)
			}
		}
		chiSquare(t, name, counts, weights)
	}
	for _, k := range draws(must(t)(NewHotspot(100, 0.1, 1)), 6, 10_000) {
		if k > 10 {
			t.Fatalf("rank %d with all traffic on 10 accounts", k)
		}
	}
	for _, k := range draws(must(t)(NewHotspot(100, 0.1, 0)), 6, 10_000) {
		if k <= 10 {
			t.Fatalf("rank %d with no traffic on 10 accounts", k)
		}
	}
}

func TestZipfianProbabilities(t *testing.T) {
	for _, theta := range []float64{0.01, 0.5, 0.99, 1 - 1e-12, 1, 1.0001, 1.5, 2} {
		for _, n := range []int64{2, 3, 10, 100} {
			name := fmt.Sprintf("theta %v over %d", theta, n)
			counts := tally(t, draws(must(t)(NewZipfian(n, theta)), 7, 100_000), n)
			weights := make([]float64, n)
			for k := range weights {
				weights[k] = math.Pow(float64(k+1), -theta)
			}
			chiSquare(t, name, counts, weights)
		}
		tally(t, draws(must(t)(NewZipfian(1, theta)), 8, 100), 1)
	}
}

// powerSum is the sum of k^-theta over 1..n, by Euler and Maclaurin from the
// twentieth term on; exact to six digits at least.
func powerSum(n int64, theta float64) float64 {
	const head = 20
	var sum float64
	for k := int64(1); k <= min(n, head); k++ {
		sum += math.Pow(float64(k), -theta)
	}
	if n <= head {
		return sum
	}
	a, b := float64(head), float64(n)
	integral := math.Log(b / a)
	if theta != 1 {
		integral = (math.Pow(b, 1-theta) - math.Pow(a, 1-theta)) / (1 - theta)
	}
	fa, fb := math.Pow(a, -theta), math.Pow(b, -theta)
	return sum + integral + (fb-fa)/2 + theta/12*(fa/a-fb/b)
}

func TestZipfianLarge(t *testing.T) {
	for _, n := range []int64{1_000_000, 1_000_000_000, MaxRows} {
		for _, theta := range []float64{0.01, 0.5, 0.99, 1, 1.2, 2} {
			name := fmt.Sprintf("theta %v over %d", theta, n)
			ranks := draws(must(t)(NewZipfian(n, theta)), 9, 15_000)
			slices.Sort(ranks)
			if ranks[0] < 1 || ranks[len(ranks)-1] > n {
				t.Fatalf("%s: ranks %d to %d", name, ranks[0], ranks[len(ranks)-1])
			}
			total := powerSum(n, theta)
			kolmogorov(t, name, ranks, func(k int64) float64 { return powerSum(k, theta) / total })
		}
	}
}

// countingSource counts the numbers that are drawn from it.
type countingSource struct {
	rand.Source
	n int
}

func (c *countingSource) Uint64() uint64 { c.n++; return c.Source.Uint64() }

func TestZipfianRejectsFew(t *testing.T) {
	const n = 20_000
	for _, rows := range []int64{1, 2, 5, 1000, MaxRows} {
		for theta := 0.1; theta <= MaxTheta; theta += 0.1 {
			d := must(t)(NewZipfian(rows, theta))
			src := &countingSource{Source: rand.NewPCG(10, 0)}
			r := rand.New(src)
			for range n {
				d.Rank(r)
			}
			if per := float64(src.n) / n; per > 1.2 {
				t.Errorf("theta %.1f over %d: %.2f numbers a draw", theta, rows, per)
			}
		}
	}
}

// articleID is the article's formula word for word, without the care for
// digits and speed that the implementation takes.
func articleID(r, p, x float64) float64 {
	a := math.Log(1-p) / math.Log(p)
	return math.Floor(r * (math.Pow(x, a) + 1 - math.Pow(1-x, 1/a)) / 2)
}

func TestParetoIsTheArticles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]float64{0.2, 0.5, 0.8, 0.99, ParetoP}).Draw(t, "p")
		x := rapid.Float64Range(0, 1-1e-9).Draw(t, "x")
		d := &pareto{n: MaxRows, r: float64(ParetoR), a: math.Log1p(-p) / math.Log(p)}
		got, want := math.Floor(d.at(x)), articleID(float64(ParetoR), p, x)
		// The article's own rounding may tip an id to its neighbour.
		if math.Abs(got-want) > 1 {
			t.Fatalf("x = %v: id %v, the article has %v", x, got, want)
		}
	})
}

func TestParetoDistribution(t *testing.T) {
	for _, tt := range []struct {
		n, r int64
		p    float64
	}{
		{1_000_000_000, ParetoR, ParetoP},
		{MinParetoRows, ParetoR, ParetoP},
		{MinParetoRows, ParetoR, 0.99}, // a third is drawn again
		{1_000_000_000, ParetoR, 0.8},
	} {
		// The x at which the formula passes k, by bisection.
		cdf := func(k int64) float64 {
			i := sort.Search(1<<40, func(i int) bool {
				return articleID(float64(tt.r), tt.p, float64(i)/(1<<40)) >= float64(k)
			})
			return float64(i) / (1 << 40)
		}
		ranks := draws(must(t)(NewPareto(tt.n, tt.r, tt.p)), 11, 10_000)
		slices.Sort(ranks)
		if ranks[0] < 1 || ranks[len(ranks)-1] > tt.n {
			t.Fatalf("%+v: ranks %d to %d", tt, ranks[0], ranks[len(ranks)-1])
		}
		inTable := cdf(tt.n)
		kolmogorov(t, fmt.Sprintf("%+v", tt), ranks, func(k int64) float64 { return cdf(k) / inTable })
	}
}

// What the article's parameters give: the quantiles, and between them an
// exponential body with scale r/(2a), whatever the number of rows.
func TestParetoQuantiles(t *testing.T) {
	const n = 500_000
	for _, rows := range []int64{MinParetoRows, 1_000_000_000} {
		ranks := draws(must(t)(NewPareto(rows, ParetoR, ParetoP)), 12, n)
		slices.Sort(ranks)
		if median := float64(ranks[n/2]); math.Abs(median/22_800-1) > 0.01 {
			t.Errorf("%d rows: median %v, want about 22,800", rows, median)
		}
		below := func(id int64) float64 {
			return float64(sort.Search(n, func(i int) bool { return ranks[i] > id })) / n
		}
		if got := below(100_000); math.Abs(got-0.9522) > 0.001 {
			t.Errorf("%d rows: a share of %.4f is below 100,000, want 0.952", rows, got)
		}
		if got := below(500_000); math.Abs(got-0.9995) > 0.0005 {
			t.Errorf("%d rows: a share of %.5f is below 500,000, want 0.9995", rows, got)
		}
		scale := float64(ranks[n/2]-ranks[n/4]) / math.Log(1.5)
		if math.Abs(scale/32_900-1) > 0.01 {
			t.Errorf("%d rows: scale %.0f, want about 32,900", rows, scale)
		}
	}
}

func BenchmarkRank(b *testing.B) {
	const n = 1_000_000_000
	for _, bb := range []struct {
		name string
		d    Dist
	}{
		{"pareto", must(b)(NewPareto(n, ParetoR, ParetoP))},
		{"zipfian", must(b)(NewZipfian(n, 0.99))},
		{"uniform", must(b)(NewUniform(n))},
		{"hotspot", must(b)(NewHotspot(n, 0.2, 0.8))},
	} {
		b.Run(bb.name, func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 0))
			for b.Loop() {
				bb.d.Rank(r)
			}
		})
	}
}
