// SPDX-License-Identifier: MIT
// amr_cpp/solver.cpp: what is done in each step, and what changes the mesh.
#include "solver.hpp"

#include <algorithm>
#include <cmath>

#include "kernels.hpp"

namespace pm = portamem;

namespace {

constexpr double kSpeedX = 1.0;
constexpr double kSpeedY = 0.6;
constexpr double kLeft = 0.95;  // of the dye, by each step: a drop is gone before the next but two has come
// How much a block's values may differ before it is split, and below which four blocks become one.
constexpr double kRough = 0.02;
constexpr double kSmooth = 0.004;
constexpr int kRegridEvery = 4;
constexpr int kDropEvery = 30;
constexpr double kDropRadius = 0.09;

}  // namespace

Solver::Solver(Memory& memory, Team& team, int base, int cells, int levels)
    : memory_(memory),
      team_(team),
      levels_(levels),
      mesh_(Mesh::uniform(base, cells)),
      state_(memory, std::vector<double>(mesh_.cells_in_all()), team.stream()),
      edges_(memory, edges(mesh_), team.stream()),
      reach_(0.4 * mesh_.width(levels - 1) / (kSpeedX + kSpeedY)),
      most_blocks_(mesh_.size()) {}

template <class Body>
void Solver::queue(const Body& body, std::size_t count, const pm::Stream& stream) {
    pm::check(static_cast<pm::rt::Error_t>(launch(body, count, stream.handle())), "launch");
}

void Solver::step() {
    if (steps_ % kDropEvery == 0) {
        drop();
    } else if (steps_ % kRegridEvery == 0) {
        regrid();
    }
    const double before = amount(survey());
    Array<double> next(memory_, mesh_.cells_in_all(), team_.stream());
    team_.run([&](int member, const std::shared_ptr<pm::Stream>& stream) {
        for (const Mesh::Level& each : mesh_.levels()) {
            const auto share = [&](int number) { return each.begin + (each.end - each.begin) * number / team_.size(); };
            if (share(member) < share(member + 1)) advance(each.level, share(member), share(member + 1), next, stream);
        }
    });
    state_ = std::move(next);
    ++steps_;
    compare(amount(survey()), before * kLeft);
}

// Blocks of one level, from begin to before end.
void Solver::advance(int level, int begin, int end, const Array<double>& to, const std::shared_ptr<pm::Stream>& on) {
    const int cells = mesh_.cells();
    const std::size_t patch_cells = cell(cells + 1, end - begin, 0, 0);
    const Array<double> patches(memory_, patch_cells, on);
    queue(FillPatches{state_.data(), edges_.data(), patches.data(), begin, cells}, patch_cells, *on);
    const double crossed = reach_ / mesh_.width(level);
    queue(Advance{patches.data(), to.data(), begin, cells, kSpeedX * crossed, kSpeedY * crossed, kLeft},
          cell(cells, end - begin, 0, 0), *on);
}

// A new drop, where the mesh is made fine first.
void Solver::drop() {
    const double x = std::fmod(0.2 + 0.37 * drops_, 1.0);
    const double y = std::fmod(0.3 + 0.23 * drops_, 1.0);
    ++drops_;
    const auto is_near = [&](const Block& block) {
        const double half = 0.5 / (mesh_.base() << block.level);
        const auto reaches = [&](int i, double to) {
            return Pour::distance((2 * i + 1) * half, to) < half + 1.2 * kDropRadius;
        };
        return block.level + 1 < levels_ && reaches(block.i, x) && reaches(block.j, y);
    };
    for (int i = 1; i < levels_; ++i) {
        change_to(adapted(mesh_, is_near, [](const std::array<Block, 4>&) { return false; }));
    }
    const Array<Place> where(memory_, places(mesh_), team_.stream());
    queue(Pour{where.data(), state_.data(), mesh_.cells(), x, y, 1.0 / kDropRadius}, mesh_.cells_in_all(),
          *team_.stream());
}

// Splits blocks in which the dye is uneven, and puts together those in which it is not.
void Solver::regrid() {
    const auto figures = survey();
    const auto of = [&](const Block& block) { return figures[static_cast<std::size_t>(mesh_.find(block))]; };
    const auto is_rough = [&](const Block& block) {
        return block.level + 1 < levels_ && of(block).high - of(block).low > kRough;
    };
    const auto is_smooth = [&](const std::array<Block, 4>& siblings) {
        double low = of(siblings[0]).low;
        double high = of(siblings[0]).high;
        for (const Block& block : siblings) {
            low = std::min(low, of(block).low);
            high = std::max(high, of(block).high);
        }
        return high - low < kSmooth;
    };
    const double before = amount(figures);
    change_to(adapted(mesh_, is_rough, is_smooth));
    compare(amount(survey()), before);
}

void Solver::change_to(Mesh mesh) {
    if (mesh.blocks() == mesh_.blocks()) return;
    const auto& stream = team_.stream();
    Array<double> state(memory_, mesh.cells_in_all(), stream);
    {
        const Array<Origin> from(memory_, origins(mesh_, mesh), stream);
        queue(Transfer{state_.data(), from.data(), state.data(), mesh.cells()}, mesh.cells_in_all(), *stream);
    }
    state_ = std::move(state);
    edges_ = Array<Edge>(memory_, edges(mesh), stream);
    mesh_ = std::move(mesh);
    most_blocks_ = std::max(most_blocks_, mesh_.size());
}

// The rows are summed up here, in order, so that the sums have the same bits everywhere.
std::vector<Solver::BlockFigures> Solver::survey() const {
    const auto side = static_cast<std::size_t>(mesh_.cells());
    const std::size_t count = static_cast<std::size_t>(mesh_.size()) * side;
    const Array<Row> on_device(memory_, count, team_.stream());
    queue(Survey{state_.data(), on_device.data(), mesh_.cells()}, count, *team_.stream());
    const std::vector<Row> rows = on_device.get();
    std::vector<BlockFigures> figures;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (i % side == 0) figures.push_back({0.0, rows[i].low, rows[i].high});
        figures.back().sum += rows[i].sum;
        figures.back().low = std::min(figures.back().low, rows[i].low);
        figures.back().high = std::max(figures.back().high, rows[i].high);
    }
    return figures;
}

// Of dye, over the whole square.
double Solver::amount(const std::vector<BlockFigures>& figures) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < figures.size(); ++i) {
        const double width = mesh_.width(mesh_.blocks()[i].level);
        sum += figures[i].sum * (width * width);
    }
    return sum;
}

void Solver::compare(double amount, double expected) {
    const double error = amount == expected ? 0.0 : std::abs(amount / expected - 1.0);
    worst_ = std::max(worst_, std::isfinite(error) ? error : 1.0);
}

// FNV-1a, 64 bits.
std::uint64_t Solver::checksum() const {
    std::uint64_t sum = 14695981039346656037u;
    const auto add = [&sum](const void* data, std::size_t nbytes) {
        const auto* bytes = static_cast<const unsigned char*>(data);
        for (std::size_t i = 0; i < nbytes; ++i) sum = (sum ^ bytes[i]) * 1099511628211u;
    };
    add(mesh_.blocks().data(), mesh_.blocks().size() * sizeof(Block));
    const std::vector<double> values = state_.get();
    add(values.data(), values.size() * sizeof(double));
    return sum;
}
