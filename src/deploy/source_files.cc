#include "deploy/source_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/unique_fd.hpp"
#include "deploy/environment.hpp"
#include "deploy/legacy.hpp"
#include "deploy/merge.hpp"
#include "deploy/yaml_reader.hpp"

namespace stagewire::deploy {
namespace {

namespace fs = std::filesystem;

/// Regular files only: a pipe or device would block or never end.
Result<std::string> read_text_file(const std::string& file) {
  base::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return base::system_error(base::text("cannot open ", file), errno);
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) return base::system_error(base::text("cannot look at ", file), errno);
  if (!S_ISREG(about.st_mode)) return base::error(ErrorCode::invalid_argument, file, " is no regular file");
  std::string text(kMaxFileSize + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    ssize_t got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return base::system_error(base::text("cannot read ", file), errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

std::string canonical_path(const std::string& file) {
  std::error_code failure;
  fs::path path = fs::weakly_canonical(file, failure);
  return failure ? file : path.string();
}

/// Reads one file after the other down the chain of bases.
class ChainReader {
 public:
  explicit ChainReader(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  std::optional<Node> read_file(const std::string& file, const std::vector<Override>& early,
                                const Place& named_at) {
    auto text = read_text_file(file);
    if (!text) {
      Place place = named_at.file ? named_at : Place{std::make_shared<const std::string>(file), 0, 0};
      diagnostics_.error(place, named_at.file ? "base_config" : "", text.error().message());
      return std::nullopt;
    }
    chain_.push_back(canonical_path(file));
    return read_text(*text, file, early, fs::path(file).parent_path());
  }

  std::optional<Node> read_text(std::string_view text, const std::string& name,
                                const std::vector<Override>& early, const fs::path& directory) {
    auto root = read_yaml(text, name, diagnostics_);
    if (!root) return std::nullopt;
    if (!root->is_map()) {
      Place place = root->place.file ? root->place : Place{std::make_shared<const std::string>(name), 1, 1};
      diagnostics_.error(place, "", "expected a map of keys such as `stages:`, found ", describe(*root));
      return std::nullopt;
    }
    modernise(*root, diagnostics_);
    for (const Override& one : early) apply_override(*root, one, diagnostics_);
    check_stage_lists(*root);
    return over_its_base(std::move(*root), directory);
  }

  const std::vector<std::string>& files() const { return chain_; }

 private:
  void check_stage_lists(const Node& root) {
    if (const Node* stages = root.find("stages")) check_unique_stages(*stages, "stages", diagnostics_);
    const Node* platforms = root.find("platforms");
    if (platforms == nullptr) return;
    for (const Entry& section : platforms->entries) {
      if (const Node* stages = section.value.find("stages")) {
        check_unique_stages(*stages, join_path(join_path("platforms", section.key), "stages"), diagnostics_);
      }
    }
  }

  std::optional<Node> over_its_base(Node root, const fs::path& directory) {
    const Node* named = root.find("base_config");
    if (named == nullptr) return root;
    Node value = *named;
    root.erase("base_config");
    std::optional<std::string> base = base_file(value, directory);
    if (!base) return std::nullopt;
    auto tree = read_file(*base, {}, value.place);
    if (!tree) return std::nullopt;
    lay_over(*tree, root);
    tree->place = root.place;
    return tree;
  }

  std::optional<std::string> base_file(Node& value, const fs::path& directory) {
    expand_tree(value, "base_config", diagnostics_);
    if (value.broken) return std::nullopt;
    if (!value.is_scalar() || value.text.empty()) {
      diagnostics_.error(value.place, "base_config", "expected the path of a file, found ", describe(value));
      return std::nullopt;
    }
    std::string file = (directory / value.text).string();
    std::string canonical = canonical_path(file);
    if (std::find(chain_.begin(), chain_.end(), canonical) != chain_.end()) {
      diagnostics_.error(value.place, "base_config", file, " is based on itself");
      return std::nullopt;
    }
    if (chain_.size() >= kMaxBaseFiles) {
      diagnostics_.error(value.place, "base_config", "more than ", kMaxBaseFiles,
                         " files based on each other");
      return std::nullopt;
    }
    return file;
  }

  Diagnostics& diagnostics_;
  std::vector<std::string> chain_;  ///< canonical paths of the files read so far
};

std::optional<SourceTree> with_files(std::optional<Node> root, const ChainReader& reader) {
  if (!root) return std::nullopt;
  return SourceTree{std::move(*root), reader.files()};
}

}  // namespace

std::optional<SourceTree> read_with_bases(const std::string& file, const std::vector<Override>& early,
                                          Diagnostics& diagnostics) {
  ChainReader reader(diagnostics);
  return with_files(reader.read_file(file, early, {}), reader);
}

std::optional<SourceTree> read_with_bases(std::string_view text, const std::string& name,
                                          const std::vector<Override>& early, Diagnostics& diagnostics) {
  ChainReader reader(diagnostics);
  return with_files(reader.read_text(text, name, early, {}), reader);
}

}  // namespace stagewire::deploy
