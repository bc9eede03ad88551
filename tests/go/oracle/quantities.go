package main

import (
	"math"
	"math/big"
	"strings"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

type quantityCase struct {
	Text  string  `json:"text"`
	Error *string `json:"error,omitempty"`
	// What Value() and MilliValue() return: 0 or a wrapped number where 64 bits do not do, and
	// one too many where a negative amount that needed big arithmetic is rounded.
	Value int64 `json:"value"`
	Milli int64 `json:"milli"`
	// What their documentation promises of the amount that was parsed: rounded away from zero;
	// and where 64 bits do not do, the nearest number that fits.
	Rounded      int64 `json:"rounded"`
	RoundedMilli int64 `json:"roundedMilli"`
	// The amount in nano; in units it is between -(2^63-1) and 2^63-1.
	Nanos string `json:"nanos"`
}

var quantityTexts = []string{
	"0", "00", "-0", "+0", "0.0", "0m", "0Ki", "1", "-1", "+1", "01", "1.", ".1", ".", "-", "+", "-.", "+.", "", " ",
	"1 ", " 1", "1 Ki", "1\n", "1,5", "1_000", "0x10", "1.2.3", "1..2", "--1", "+-1", "-+1", "1-", "1+", "1-1", "1+1",
	"m", "k", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "-Ei", "+Pi", ".Ti", ".Pi", "i", "e", "e5", "E5", "e-9", "e-10",
	".e-10", "-e-20", ".e-9", "0e-20", "000e-20", "0.e-20", ".0e-20", "1e", "1e+", "1e-", "1E", "1E+", "1e0", "1e1",
	"1E1", "1e+3", "1e-3", "1e3.5", "1e 3", "1e5m", "1e5Ki", "1m5", "1Ki5", "1Ki+5", "1eE5", "1Ee5", "1ee5", "1EE",
	"1Ei1", "1kk", "1mm", "1K", "1Kii", "1ki", "1KI", "1mi", "1g", "1t", "1p", "1B", "1KiB", "1GB", "1 GB", "1i", "1s",
	"1n", "1u", "1m", "1k", "1M", "1G", "1T", "1P", "9n", "999n", "1000n", "1001n", "999999999n", "1000000000n",
	"1000000001n", "0.1n", "0.5n", "1.1n", "0.0000000001", "-0.0000000001", "0.1m", "1.5m", "100m", "250m", "999m",
	"1000m", "1001m", "1500m", "0.25", "0.5", "1.5", "2.0", "1.0001", "1.999999999", "1.9999999991", "-0.5", "-1.5",
	"-1500m", "-1m", "-1n", "-0.1n", "-1.9999999991", "-1.5Ki", "-0.5Ki", "-0.0001Ki", "-1.1Ki", "-1Gi", "-7999m",
	"12", "12e6", "12E6", "12e-6", "12e-9", "12e-10", "12e-12", "123e-11", "1e9", "1e18", "9e18", "9.2e18",
	"1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei", "1.5Ki", "1.5Mi", "1.5Gi", "1.5Ti", "1.5Pi", "1.5Ei", "0.1Ki", "0.1Gi",
	"0.3Ki", "0.001Ki", "0.0001Ki", "0.0000000001Ki", "0.00000000001Ki", "1.1Ki", "1.0000000001Ki", "0.7Ei",
	"0.000000000000000001Ei", "0.0000000000000000001Ei", "0.00000000000000000000000000000000000001Ei",
	"1023Ki", "1024Ki", "1025Ki", "7.9999Ei", "8191Pi", "8192Pi", "7Ei", "8Ei", "9Ei", "-8Ei", "-9Ei", "100Ei",
	"4096Mi", "65536Mi", "64Gi", "131072Ki", "263921756Ki", "16386984Ki", "1007Gi", "92233720368547758Ki",
	"9007199254740991", "9007199254740993", "999999999999999999", "1000000000000000000", "9223372036854775806",
	"9223372036854775807", "9223372036854775808", "-9223372036854775807", "-9223372036854775808",
	"-9223372036854775809", "9223372036854775807m", "9223372036854775808m", "9223372036854775807n",
	"9223372036854775807000m", "9223372036854775807001m", "9223372036854775806.5", "9223372036854775807.5",
	"9223372036854775.807", "9223372036854775.808", "9223372036854776", "-9223372036854775.808", "-9223372036854776",
	"9223372036854775k", "9223372036854776k", "9223372036854775.807k", "9.223372036854775807E", "9.223372036854775808E",
	"9E", "10E", "-10E", "1e19", "1e20", "1e30", "-1e30", "1e100", "0e100", "0e1000", "123456789012345678901234567890",
	"-123456789012345678901234567890", "123456789012345678901234567890n", "0.123456789012345678901234567890",
	"1.000000000000000000000000000001", "100000000000000000000e-20", "100000000000000000001e-20",
	"0.00000000000000000001e20", "0.00000000000000000001e19", "12345.6789e4", "12345.6789e5", "12345.6789e-6",
	"1e-100", "-1e-100", "1e-1000", "1e2147483648m", "1e9223372036854775808", "1e-9223372036854775809",
	"1e4294967296", "1e4294967299", "1e-4294967293", "1e99999999999999999999", "1e0000000000000000000000003",
	"1e+00003", "1e-00003", "000000000000000000000000000001", "0000000000000000000001.50000000000000000000000",
	"000000000000000001Gi", "0.50000000000000000000000000000000000000000000000000000000000000000000000000000000Gi",
	"0.50000000000000000000000000000000000000000000000000000000000000000000000000000001Gi",
	"é", "1é", "１", "1µ", "1％", "∞", "NaN", "Inf", "-inf", "null", "true", "1\x00", "\x001", "1Ki\x00",
}

func quantities() file {
	var cases []quantityCase
	for _, text := range append(quantityTexts, generatedQuantities()...) {
		cases = append(cases, answerQuantity(text))
	}
	return file{version("k8s.io/apimachinery"), []section{list("cases", cases)}}
}

// generatedQuantities are numbers of every length with every kind of suffix.
func generatedQuantities() []string {
	random := chance(4)
	suffixes := []string{
		"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-3", "e-12", "e+7",
	}
	digits := func(most int) string {
		return strings.Join(some(random, strings.Split("0123456789", ""), most), "")
	}
	var texts []string
	for _, suffix := range suffixes {
		for _, most := range []int{4, 12, 25, 90} {
			texts = append(texts, digits(most)+suffix, digits(most)+"."+digits(most)+suffix)
		}
		texts = append(texts, "-"+digits(5)+"."+digits(12)+suffix, "0."+digits(90)+suffix)
	}
	return texts
}

func answerQuantity(text string) quantityCase {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return quantityCase{Text: text, Error: sentence(err)}
	}
	answer := quantityCase{Text: text, Value: quantity.Value(), Milli: quantity.MilliValue()}
	amount := new(inf.Dec).Set(quantity.AsDec())
	// An amount is never below -(2^63-1); a number of thousandths may be.
	lowest, highest := inf.NewDec(-math.MaxInt64, 0), inf.NewDec(math.MaxInt64, 0)
	milli := within(amount, inf.NewDec(math.MinInt64, 3), inf.NewDec(math.MaxInt64, 3))
	answer.Rounded = awayFromZero(within(amount, lowest, highest), 0).Int64()
	answer.RoundedMilli = awayFromZero(milli, 3).Int64()
	answer.Nanos = awayFromZero(within(amount, lowest, highest), 9).String()
	return answer
}

func within(amount, lowest, highest *inf.Dec) *inf.Dec {
	switch {
	case amount.Cmp(highest) > 0:
		return highest
	case amount.Cmp(lowest) < 0:
		return lowest
	}
	return amount
}

// awayFromZero is the amount in units of 10^-scale.
func awayFromZero(amount *inf.Dec, scale inf.Scale) *big.Int {
	return new(inf.Dec).Round(amount, scale, inf.RoundUp).UnscaledBig()
}
