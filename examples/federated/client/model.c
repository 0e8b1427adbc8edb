/* Logistic regression, or one hidden layer of rectifiers, by stochastic gradient descent.
 *
 * Every sum goes from first to last and `exponential` is our own, so that the same model comes out
 * wherever this runs, and out of client.py too. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

typedef struct {
    uint32_t rows, columns;
    size_t at; /* weights row by row, then biases */
} Layer;

static int layers_of(const Layout *layout, Layer layers[2]) {
    if (!layout->hidden) {
        layers[0] = (Layer){layout->inputs, layout->classes, 0};
        return 1;
    }
    layers[0] = (Layer){layout->inputs, layout->hidden, 0};
    layers[1] = (Layer){layout->hidden, layout->classes,
                        (size_t)(layout->inputs + 1) * layout->hidden};
    return 2;
}

size_t layout_size(const Layout *layout) {
    Layer layers[2], last = {0, 0, 0};
    last = layers[layers_of(layout, layers) - 1];
    return last.at + (size_t)(last.rows + 1) * last.columns;
}

/* Zeros for logistic regression; else small numbers that are the same for everybody. */
void layout_initial(const Layout *layout, uint64_t seed, double *model) {
    Layer layers[2];
    Chance chance = {seed};
    int count = layers_of(layout, layers);
    memset(model, 0, layout_size(layout) * sizeof *model);
    for (int n = 0; layout->hidden && n < count; n++) {
        double bound = sqrt(6.0 / (layers[n].rows + layers[n].columns));
        size_t weights = (size_t)layers[n].rows * layers[n].columns;
        for (size_t at = 0; at < weights; at++)
            model[layers[n].at + at] = chance_between(&chance, bound);
    }
}

/* e to a power that is not above 0. */
static double exponential(double value) {
    if (value < -700.0) value = -700.0;
    double power = floor(value * 1.4426950408889634 + 0.5);
    double rest = value - power * 0.6931471803691238;
    rest = rest - power * 1.9082149292705877e-10;
    double total = 1.0;
    for (int divisor = 13; divisor > 0; divisor--) total = total * rest / divisor + 1.0;
    return ldexp(total, (int)power);
}

static void apply(const Layer *layer, const double *model, const double *in, double *out) {
    const double *weights = model + layer->at;
    const double *biases = weights + (size_t)layer->rows * layer->columns;
    memcpy(out, biases, layer->columns * sizeof *out);
    for (uint32_t row = 0; row < layer->rows; row++)
        for (uint32_t column = 0; column < layer->columns; column++)
            out[column] += in[row] * weights[(size_t)row * layer->columns + column];
}

static void softmax(double *values, uint32_t count) {
    double highest = values[0], total;
    for (uint32_t at = 1; at < count; at++)
        if (values[at] > highest) highest = values[at];
    for (uint32_t at = 0; at < count; at++) values[at] = exponential(values[at] - highest);
    total = values[0];
    for (uint32_t at = 1; at < count; at++) total += values[at];
    for (uint32_t at = 0; at < count; at++) values[at] = values[at] / total;
}

/* What the layers put out for one sample; the last are probabilities. */
static void forward(const Layout *layout, const double *model, const double *in, double *hidden,
                    double *chances) {
    Layer layers[2];
    if (layers_of(layout, layers) == 2) {
        apply(&layers[0], model, in, hidden);
        for (uint32_t at = 0; at < layout->hidden; at++)
            if (!(hidden[at] > 0.0)) hidden[at] = 0.0;
        apply(&layers[1], model, hidden, chances);
    } else {
        apply(&layers[0], model, in, chances);
    }
    softmax(chances, layout->classes);
}

static void add_slope(const Layer *layer, double *slope, const double *in, const double *error) {
    double *weights = slope + layer->at;
    double *biases = weights + (size_t)layer->rows * layer->columns;
    for (uint32_t row = 0; row < layer->rows; row++)
        for (uint32_t column = 0; column < layer->columns; column++)
            weights[(size_t)row * layer->columns + column] += in[row] * error[column];
    for (uint32_t column = 0; column < layer->columns; column++) biases[column] += error[column];
}

/* Adds the gradient of one sample's loss; `room` has space for the layers' outputs and errors. */
static void add_gradient(const Layout *layout, const double *model, const double *in, uint8_t label,
                         double *slope, double *room) {
    Layer layers[2];
    int count = layers_of(layout, layers);
    double *hidden = room, *error = hidden + layout->hidden, *back = error + layout->classes;
    forward(layout, model, in, hidden, error);
    error[label] -= 1.0;
    if (count == 1) {
        add_slope(&layers[0], slope, in, error);
        return;
    }
    add_slope(&layers[1], slope, hidden, error);
    for (uint32_t at = 0; at < layout->hidden; at++) {
        const double *weights = model + layers[1].at + (size_t)at * layout->classes;
        double total = 0.0;
        for (uint32_t class = 0; class < layout->classes; class++)
            total += error[class] * weights[class];
        back[at] = hidden[at] > 0.0 ? total : 0.0;
    }
    add_slope(&layers[0], slope, in, back);
}

void train(const Shard *shard, const Layout *layout, const Settings *settings, double *model,
           Chance *chance, AfterEpoch after, void *context) {
    size_t size = layout_size(layout);
    double *start = need(size * sizeof *start), *slope = need(size * sizeof *slope);
    double *room = need((2 * layout->hidden + layout->classes) * sizeof *room);
    uint32_t *order = need(shard->samples * sizeof *order);
    memcpy(start, model, size * sizeof *start);
    for (uint32_t epoch = 0; epoch < settings->epochs; epoch++) {
        chance_shuffle(chance, order, shard->samples);
        for (uint32_t at = 0; at < shard->samples; at += settings->batch) {
            uint32_t left = shard->samples - at;
            uint32_t count = left < settings->batch ? left : settings->batch;
            memset(slope, 0, size * sizeof *slope);
            for (uint32_t n = 0; n < count; n++) {
                const double *in = shard->features + (size_t)order[at + n] * shard->inputs;
                add_gradient(layout, model, in, shard->labels[order[at + n]], slope, room);
            }
            double rate = settings->rate / count, pull = settings->rate * settings->mu;
            for (size_t n = 0; n < size; n++) {
                double step = rate * slope[n];
                if (settings->mu != 0.0) step += pull * (model[n] - start[n]);
                model[n] -= step;
            }
        }
        for (size_t n = 0; n < size; n++)
            if (!isfinite(model[n]))
                give_up("the training diverged: take a smaller learning rate");
        after(context, epoch + 1, settings->epochs);
    }
    free(start), free(slope), free(room), free(order);
}

/* Mean loss, and the share of right answers. */
void score(const Shard *shard, const Layout *layout, const double *model, double *loss,
           double *accuracy) {
    double *room = need((layout->hidden + layout->classes) * sizeof *room);
    double *chances = room + layout->hidden, total = 0.0;
    uint32_t right = 0;
    for (uint32_t at = 0; at < shard->samples; at++) {
        uint32_t best = 0;
        const double *in = shard->features + (size_t)at * shard->inputs;
        forward(layout, model, in, room, chances);
        for (uint32_t class = 1; class < layout->classes; class++)
            if (chances[class] > chances[best]) best = class;
        right += best == shard->labels[at];
        double chance = chances[shard->labels[at]];
        total -= log(chance > 1e-300 ? chance : 1e-300);
    }
    *loss = total / shard->samples;
    *accuracy = (double)right / shard->samples;
    free(room);
}
